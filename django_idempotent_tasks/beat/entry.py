"""One periodic task as beat sees it: the message to send, and its grid of times."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import cached_property
from hashlib import sha256
from typing import Any, NoReturn

from celery import schedules
from django_celery_beat.schedulers import ModelEntry

from ..conf import settings
from ..exceptions import ConfigurationError
from . import words
from .clock import aware
from .grid import Grid
from .misfire import Misfire
from .readable import check, check_schedule

#: An entry that was saved more recently begins when it was saved, not when beat read it.
RECENT = timedelta(minutes=5)


class CursorEntry(ModelEntry):  # type: ignore[misc]  # it ships no types
    """An entry whose times are those of its grid; ``last_run_at`` is for people only.

    Raises ConfigurationError for an entry that no beat can send and for a wrong word in the header
    ``idempotent_beat``, and what django-celery-beat raises for a periodic task that cannot be read. The
    row is not disabled: whoever mends it finds it as it was.
    """

    def __init__(self, model: Any, app: Any = None) -> None:
        check(model)
        #: When any scheduler last sent the entry; the base class overwrites the model's value.
        self.ran_at = None if model.last_run_at is None else aware(model.last_run_at)
        super().__init__(model, app=app)
        own = words.read(self.options["headers"].pop(words.HEADER, None))
        self.misfire = Misfire(own.get("misfire", settings().misfire))
        self.skips_overlap = own.get("overlap") == "skip"
        self.last_due_at: datetime | None = None
        #: Whether the entry had no cursor until now.
        self.is_new = False
        self._next: tuple[datetime | None, datetime | None] | None = None
        check_schedule(self.schedule, self.name)
        _ = (
            self.grid,
            self.ends,
            self.fingerprint,
        )  # computed now, so that an error is raised while the entry is made

    def _disable(self, model: Any) -> NoReturn:
        msg = f"{model.name} has a schedule that no longer exists; edit the periodic task."
        raise ConfigurationError(msg)

    @cached_property
    def grid(self) -> Grid:
        """The entry's nominal times."""
        return Grid(self.schedule, start=self.start)

    @cached_property
    def start(self) -> datetime | None:
        """The entry's ``start_time``, before which nothing is due."""
        moment = self.model.start_time
        return None if moment is None else aware(moment)

    @cached_property
    def ends(self) -> datetime | None:
        """The entry's ``expires``, after which nothing is sent."""
        moment = self.model.expires
        return None if moment is None else aware(moment)

    @cached_property
    def fingerprint(self) -> str:
        """A digest of all that the grid depends on; when it changes, the grid begins anew."""
        every = getattr(self.schedule, "run_every", None)
        what = repr(self.schedule) if every is None else every.total_seconds()
        return sha256(repr((type(self.schedule).__name__, what, self.start)).encode()).hexdigest()

    @property
    def next_due(self) -> datetime | None:
        """The time after the last one; None without any. Raises what the schedule raises."""
        return self._after(self.last_due_at)

    def announced(self, last: datetime | None) -> datetime | None:
        """The time after ``last``, for people; None also where it cannot be computed, which beat logs."""
        try:
            return self._after(last)
        except Exception:  # noqa: BLE001  as many as there are kinds of schedules
            return None

    def _after(self, last: datetime | None) -> datetime | None:
        if self._next is None or self._next[0] != last:
            self._next = (last, self.grid.after(last))
        return self._next[1]

    def first_cursor(self, now: datetime) -> datetime | None:
        """The cursor of an entry without one: where another scheduler left off, or the beginning."""
        if self.model.total_run_count and self.ran_at is not None and self.grid.once is None:
            return self.grid.floor(min(self.ran_at, now))
        if self.start is not None and self.grid.every is not None and self.ran_at is None:
            return None  # the start, however long ago, is the first time
        return self.cursor_anew(now)

    def cursor_anew(self, now: datetime) -> datetime | None:
        """The cursor of an entry that was edited or enabled again: no earlier time is due."""
        saved = aware(self.model.date_changed)
        begin = saved if now - RECENT <= saved <= now else now
        if self.grid.once is not None or (self.start is not None and self.start > begin):
            return None
        return self.grid.floor(begin)

    @property
    def has_run_once(self) -> bool:
        """Whether another scheduler has sent this one-off entry without disabling it yet."""
        return bool(self.model.one_off and self.model.total_run_count)

    def is_over(self, due: datetime, now: datetime) -> bool:
        """Whether this time is past the entry's end, or past the deadline for late starts of crontabs."""
        if self.ends is not None and max(due, now) >= self.ends:
            return True
        limit = self.app.conf.beat_cron_starting_deadline
        is_crontab = isinstance(self.schedule, schedules.crontab)
        return is_crontab and limit is not None and (now - due).total_seconds() > limit

    def expires_at(self, now: datetime) -> datetime | None:
        """The moment after which a worker drops a message of this entry."""
        seconds = self.model.expire_seconds
        return self.ends if seconds is None else now + timedelta(seconds=seconds)
