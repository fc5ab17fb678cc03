"""A backend for ``django.tasks`` (Django 6.0), and for the package django-tasks: enqueues are reserved calls.

``TASKS = {"default": {"BACKEND": "django_idempotent_tasks.backend.CeleryBackend"}}``; options of ours by
``@idempotent(...)`` above ``@task``. Nothing else in the package imports this room.
"""

from __future__ import annotations

from .celery import CeleryBackend

__all__ = ["CeleryBackend"]
