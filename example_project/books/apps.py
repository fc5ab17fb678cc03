"""The Django app."""

from __future__ import annotations

from django.apps import AppConfig


class BooksConfig(AppConfig):
    """Installs the models and the periodic tasks."""

    name = "example_project.books"
    default_auto_field = "django.db.models.BigAutoField"
