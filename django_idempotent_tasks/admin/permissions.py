"""Checks the permissions of this app."""

from __future__ import annotations

from django.http import HttpRequest


def has(request: HttpRequest, *codenames: str) -> bool:
    """Whether this person has all these permissions of the app."""
    return request.user.has_perms([f"django_idempotent_tasks.{each}" for each in codenames])
