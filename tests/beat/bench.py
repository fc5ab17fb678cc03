"""Schedulers on one database, by a clock that the tests move, and the messages that they send."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from django_celery_beat.models import CrontabSchedule, IntervalSchedule, PeriodicTask

from django_idempotent_tasks.beat import clock
from django_idempotent_tasks.models import BEAT, BeatCursor, IdempotencyKey, Leader
from django_idempotent_tasks.schedulers import SingleInstanceDatabaseScheduler
from tests.support.post import Post

#: When the tests begin.
EPOCH = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)


class Clock(clock.Clock):
    """The database's clock, as the tests set it."""

    def __init__(self, bench: Bench) -> None:
        super().__init__()
        self.bench = bench
        self._last: datetime | None = None

    def set(self, now: datetime) -> timedelta:  # noqa: ARG002  the tests say what time it is
        last, self._last = self._last, self.now()
        return max((last or self.now()) - self.now(), timedelta(0))

    def now(self) -> datetime:
        return self.bench.now


class Bench:
    """One app, any number of beats."""

    def __init__(self) -> None:
        self.post = Post()
        self.app = self.post.app
        self.app.conf.update(beat_max_loop_interval=None, result_expires=None)
        self.now = EPOCH

        self.app.task(name="shop.report", shared=False)(_report)

    def beat(self) -> SingleInstanceDatabaseScheduler:
        """A beat that has yet to tick."""
        scheduler = SingleInstanceDatabaseScheduler(app=self.app)
        scheduler._clock = Clock(self)
        return scheduler

    def tick(self, *beats: SingleInstanceDatabaseScheduler, after: float = 0, leads: bool = True) -> float:
        """Let so many seconds pass, then one tick of each, as leaders; what the last one said."""
        self.now += timedelta(seconds=after)
        rest = 0.0
        for beat in beats:
            if leads:
                self.crown(beat)
            beat._renew_at = 0.0
            rest = beat.tick()
        return rest

    def look(self, beat: SingleInstanceDatabaseScheduler) -> float:
        """Ticks until one says that nothing more is due: on a busy machine one ends early, and says 0."""
        beat._renew_at = 0.0
        return next(rest for _ in range(100) if (rest := beat.tick()))

    def crown(self, beat: SingleInstanceDatabaseScheduler) -> None:
        """Give a beat the lead, whoever has it."""
        Leader.objects.filter(name=BEAT).exclude(holder=beat.holder).delete()

    def read_again(self, *beats: SingleInstanceDatabaseScheduler) -> None:
        """Let the minute pass after which entries are read in any case."""
        for beat in beats:
            beat._read_at = 0.0

    def every(self, seconds: int, name: str = "entry", **fields: Any) -> PeriodicTask:
        """An interval entry."""
        interval, _ = IntervalSchedule.objects.get_or_create(every=seconds, period="seconds")
        return self.entry(name, interval=interval, **fields)

    def cron(self, minute: str, name: str = "entry", *, hour: str = "*", **fields: Any) -> PeriodicTask:
        """A crontab entry."""
        crontab, _ = CrontabSchedule.objects.get_or_create(minute=minute, hour=hour, timezone="UTC")
        return self.entry(name, crontab=crontab, **fields)

    def entry(self, name: str, **fields: Any) -> PeriodicTask:
        """Any entry."""
        entry: PeriodicTask = PeriodicTask.objects.create(**{"name": name, "task": "shop.report", **fields})
        return entry

    def sent(self) -> list[float]:
        """Take the messages that wait: their nominal times as seconds since the beginning, in order."""
        return sorted(since(message["periodic_due_at"]) for message in self.post.arrived())

    def names(self) -> list[str]:
        """Take the messages that wait: the names of their entries, in order."""
        return sorted(message["periodic_task_name"] for message in self.post.arrived())

    def cursor(self, entry: PeriodicTask) -> BeatCursor:
        """The entry's cursor."""
        return BeatCursor.objects.get(pk=entry.pk)

    def key(self, entry: PeriodicTask) -> IdempotencyKey:
        """The key of the entry's only occurrence."""
        return IdempotencyKey.objects.get(key_text__startswith=f"beat:{entry.pk}:")


def _report(*_args: Any, **_kwargs: Any) -> None:
    """Nobody runs it."""


def since(moment: str) -> float:
    """Seconds from the beginning of the tests to a moment."""
    return (datetime.fromisoformat(moment) - EPOCH).total_seconds()
