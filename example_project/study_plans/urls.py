"""Addresses of the study plans app."""

from __future__ import annotations

from django.urls import path

from . import views

app_name = "study_plans"

_PAIR = "<slug:school>/<int:student_id>/<int:course_id>/"

urlpatterns = [
    path("", views.index, name="index"),
    path("seed/", views.seed, name="seed"),
    path(_PAIR, views.show, name="show"),
    path(f"{_PAIR}generate/", views.generate, name="generate"),
    path(f"{_PAIR}cancel/", views.cancel, name="cancel"),
]
