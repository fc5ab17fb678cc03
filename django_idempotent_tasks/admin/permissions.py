"""What a person may do and see: the permissions of this app."""

from __future__ import annotations

from django.http import HttpRequest


def has(request: HttpRequest, *codenames: str) -> bool:
    """Whether this person has all these permissions of ours."""
    return request.user.has_perms([f"django_idempotent_tasks.{each}" for each in codenames])
