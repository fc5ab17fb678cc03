"""Addresses of the payments app."""

from __future__ import annotations

from django.urls import path

from .views import receive

urlpatterns = [path("<slug:tenant>/", receive, name="webhook")]
