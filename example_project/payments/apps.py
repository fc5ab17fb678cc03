"""Registers the app with Django."""

from __future__ import annotations

from django.apps import AppConfig


class PaymentsConfig(AppConfig):
    """The payments app."""

    name = "example_project.payments"
    label = "payments"
