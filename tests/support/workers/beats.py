"""Real ``celery beat`` processes, and what they have sent."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from django.db import connections

from tests.support.brokers.broker import Broker
from tests.support.waiting import eventually
from tests.support.workers.processes import Worker

OURS = "django_idempotent_tasks.schedulers:SingleInstanceDatabaseScheduler"
STOCK = "django_celery_beat.schedulers:DatabaseScheduler"


class Beat(Worker):
    """One ``celery beat``."""

    def command(self) -> list[str]:
        scheduler = self._arguments[0] if self._arguments else OURS
        return [
            *(sys.executable, "-m", "celery", "-A", "tests.sample", "beat", "--loglevel", "INFO"),
            *("--scheduler", scheduler, "--pidfile="),
        ]

    @property
    def _is_ready(self) -> bool:
        return "beat: Starting..." in self.text()[self._begin :]


class IdemBeat(Beat):
    """One ``manage.py idem beat``."""

    def command(self) -> list[str]:
        return [sys.executable, "-m", "django", "idem", "beat"]


class ListeningBeat(IdemBeat):
    """One that answers to ``celery inspect ping``."""

    def command(self) -> list[str]:
        return [*super().command(), "--enable-remote-control"]


class Beats:
    """Some beats on one database and one broker; ``alias`` is the database for the tests."""

    def __init__(self, alias: str, url: str, broker: Broker, directory: Path, **environment: str) -> None:
        self.alias = alias
        self.broker = broker
        self.directory = directory
        self.environment = {
            "DJANGO_SETTINGS_MODULE": "tests.sample.settings",
            "DATABASE_URL": url,
            "CELERY_BROKER_URL": broker.url,
            "PROJ_PREFIX": broker.prefix,
            "PROJ_DIRECTORY": str(directory),
            **environment,
        }
        self.beats: list[Beat] = []

    def start(self, number: int, *, scheduler: str = OURS, kind: type[Beat] = Beat) -> list[Beat]:
        """Start so many more."""
        first = len(self.beats)
        started = [self._make(f"beat-{first + each}", scheduler, kind) for each in range(number)]
        for beat in started:
            beat.launch()
        for beat in started:
            beat.wait_until_ready()
        return started

    def _make(self, name: str, scheduler: str, kind: type[Beat]) -> Beat:
        beat = kind(name, self.directory / f"{name}.log", scheduler, environment=self.environment)
        self.beats.append(beat)
        return beat

    def entry(self, name: str, **fields: Any) -> Any:
        """An entry; ``every`` are seconds, else it is minutely."""
        from django_celery_beat.models import (  # noqa: PLC0415  it may not be installed
            CrontabSchedule,
            IntervalSchedule,
            PeriodicTask,
        )

        every = fields.pop("every", None)
        if every is None:
            fields["crontab"] = CrontabSchedule.objects.using(self.alias).create(timezone="UTC")
        else:
            interval = IntervalSchedule.objects.using(self.alias)
            fields["interval"] = interval.create(every=every, period="seconds")
        entry = PeriodicTask(name=name, **fields)
        PeriodicTask.objects.using(self.alias).bulk_create([entry])
        return PeriodicTask.objects.using(self.alias).get(name=name)

    def leader(self) -> Beat | None:
        """The living beat that has the lead, if one has."""
        from django_idempotent_tasks.models import Leader  # noqa: PLC0415

        row = Leader.objects.using(self.alias).filter(name="beat").first()
        pid = row.holder.split(":")[1] if row else ""
        return next((beat for beat in self.beats if beat.is_alive and str(beat.process.pid) == pid), None)

    def wait_for_leader(self, *, within: float, but: Beat | None = None) -> Beat:
        """Wait until a living beat leads, another than ``but``."""

        def look() -> Beat | None:
            leader = self.leader()
            return None if leader is but else leader

        return eventually(look, "a beat leads", within=within)

    def sent(self, queue: str) -> list[datetime]:
        """The nominal times of the messages in a queue that nobody reads, in order."""
        raw = self.broker.client.lrange(self.broker.prefix + queue, 0, -1)
        return sorted(datetime.fromisoformat(json.loads(each)["headers"]["periodic_due_at"]) for each in raw)

    def wait_for_sent(self, queue: str, number: int, *, within: float = 30) -> list[datetime]:
        """Wait until at least so many messages are there."""
        return eventually(
            lambda: found if len(found := self.sent(queue)) >= number else None,
            f"{number} messages",
            within=within,
        )

    def cursor(self, entry: Any) -> datetime:
        """How far beat has come with an entry."""
        from django_idempotent_tasks.models import BeatCursor  # noqa: PLC0415

        due = BeatCursor.objects.using(self.alias).get(pk=entry.pk).last_due_at
        assert due is not None
        return due

    def close(self) -> None:
        """Kill them all."""
        for beat in self.beats:
            beat.kill()
        connections[self.alias].close()


@contextmanager
def beats(alias: str, url: str, broker: Broker, directory: Path, **environment: str) -> Iterator[Beats]:
    """Beats that are killed at the end."""
    found = Beats(alias, url, broker, directory, **environment)
    try:
        yield found
    finally:
        found.close()
