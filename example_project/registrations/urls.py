"""Addresses of the registrations app."""

from __future__ import annotations

from django.urls import path

from . import views

app_name = "registrations"

urlpatterns = [
    path("", views.index, name="index"),
    path("seed/", views.seed, name="seed"),
    path("<int:event>/", views.show_event, name="event"),
    path("<int:event>/send/", views.send, name="send"),
    path("uploads/<uuid:upload>/", views.show_upload, name="upload"),
    path("uploads/<uuid:upload>/status/", views.status, name="status"),
    path("uploads/<uuid:upload>/to-mend.csv", views.corrections, name="corrections"),
    path("uploads/<uuid:upload>/again/", views.again, name="again"),
]
