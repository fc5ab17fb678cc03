"""Who may see what: organisers what belongs to their events, superusers what belongs to any."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.shortcuts import get_object_or_404

from .models import Event, Upload

if TYPE_CHECKING:
    from django.db.models import QuerySet


def events_of(user: Any) -> QuerySet[Event]:
    """The events that a signed-in user organises."""
    events = Event.objects.select_related("tenant")
    return events if user.is_superuser else events.filter(organisers=user)


def event_of(user: Any, number: int) -> Event:
    """One of them. Raises Http404 for what is not there, or is another's."""
    return get_object_or_404(events_of(user), pk=number)


def upload_of(user: Any, number: UUID) -> Upload:
    """An upload of one of them. Raises Http404 likewise."""
    uploads = Upload.objects.select_related("event").filter(event__in=events_of(user))
    return get_object_or_404(uploads, pk=number)
