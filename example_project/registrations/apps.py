"""Registers the app with Django."""

from __future__ import annotations

from django.apps import AppConfig


class RegistrationsConfig(AppConfig):
    """The registrations app."""

    name = "example_project.registrations"
    label = "registrations"
    verbose_name = "Registrations"
