"""Writes who did what and why to the admin's own log (``LogEntry``)."""

from __future__ import annotations

from typing import Any

from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.contenttypes.models import ContentType
from django.db.models import Model
from django.http import HttpRequest

from ..words.wording import shown

#: How many characters of an object's name the log holds.
_NAME = 200


def who(request: HttpRequest) -> str:
    """The person who is logged in."""
    user: Any = request.user
    return str(user.get_username())


def note(request: HttpRequest, row: Model, what: str) -> None:
    """Write one entry about a row."""
    kind = ContentType.objects.get_for_model(row)  # for a dead letter that of its key, which outlives it
    LogEntry.objects.create(
        user_id=str(request.user.pk),
        content_type=kind,
        object_id=str(row.pk),
        object_repr=shown(row)[:_NAME],
        action_flag=CHANGE,
        change_message=shown(what),
    )
