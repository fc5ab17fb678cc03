"""The app, under the name that its models have in the examples."""

from __future__ import annotations

from django.apps import AppConfig


class ShopConfig(AppConfig):
    """Tables without migrations."""

    name = "tests.docs.shop"
    label = "shop"
    default_auto_field = "django.db.models.BigAutoField"
