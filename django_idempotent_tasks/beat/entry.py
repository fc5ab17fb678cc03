"""One periodic task as beat sees it: what to send, and on which grid."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cached_property
from hashlib import sha256
from typing import Any

from django_celery_beat.schedulers import ModelEntry

from ..conf import settings
from .grid import Grid, Misfire

#: A header of the periodic task, for beat alone: ``{"idempotent_beat": {"misfire": "all", "overlap": "skip"}}``.
OWN = "idempotent_beat"


class CursorEntry(ModelEntry):  # type: ignore[misc]  # it ships no types
    """An entry whose times are those of its grid; ``last_run_at`` is for people only."""

    def __init__(self, model: Any, app: Any = None) -> None:
        super().__init__(model, app=app)
        given = self.options["headers"].pop(OWN, None)
        own = given if isinstance(given, dict) else {}
        self.misfire = Misfire(own.get("misfire", settings().misfire))
        self.skips_overlap = own.get("overlap") == "skip"
        self.last_due_at: datetime | None = None

    @cached_property
    def grid(self) -> Grid:
        """The entry's nominal times."""
        start = self.model.start_time
        return Grid(self.schedule, first=None if start is None else start.astimezone(UTC))

    @property
    def is_clocked(self) -> bool:
        """Whether it has one time only."""
        return self.model.clocked_id is not None

    def fingerprint(self) -> str:
        """What the grid depends on; another one starts the grid anew."""
        parts = (repr(self.schedule), self.model.start_time, self.model.clocked_id)
        return sha256(repr(parts).encode()).hexdigest()

    def begins_after(self, now: datetime) -> datetime | None:
        """The cursor of an entry that is seen for the first time, or was edited."""
        if self.is_clocked:
            return None
        start = self.model.start_time
        if start is not None and start > now:
            return None
        return now

    def is_over(self, due: datetime) -> bool:
        """Whether this time is past the entry's own end."""
        return self.model.expires is not None and due >= self.model.expires

    def expires_at(self, now: datetime) -> datetime | None:
        """When a message of it is no longer worth a run."""
        expires = self.options.get("expires")
        if isinstance(expires, datetime):
            return expires
        return None if expires is None else now + timedelta(seconds=float(expires))
