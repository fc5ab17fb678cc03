"""Tells which worker holds a key, which workers live, and what they run now."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.utils import timezone
from django.utils.translation import gettext as _

from ..conf import settings
from ..identity.text import harmless
from ..ledger.moments import database_now, exact, shifted
from ..ledger.stores import LedgerStore
from ..models import WORKER_SILENT_AFTER, IdempotencyKey, Worker
from ..states import State
from .text import since

#: How many workers, and how many running keys, one look reads.
LOOKED_AT = 1000
#: For how long a worker that has ended or fell silent is listed.
RECENTLY = timedelta(hours=1)
#: Digits of a process's number, and an owner id as claims have it.
_DIGITS = 10
_OWNER = re.compile(r"[0-9a-f]{32}:\d{1,10}:[0-9a-f]+")
SILENT_AFTER = timedelta(seconds=WORKER_SILENT_AFTER)


@dataclass(frozen=True, slots=True)
class Holder:
    """Who has a key, or had it: a process of a worker; None is not known.

    ``since`` is when the holder took the key, ``now`` when all this was read.
    """

    now: datetime
    worker: Worker | None
    pid: int | None
    since: datetime | None = None

    @property
    def name(self) -> str | None:
        """The worker's name, as Celery's commands take it."""
        return None if self.worker is None else self.worker.name

    @property
    def is_alive(self) -> bool:
        """Whether its worker was seen within :data:`WORKER_SILENT_AFTER` seconds and has not ended."""
        return self.worker is not None and is_alive(self.worker, self.now)

    @property
    def who(self) -> str:
        """Worker and process without the time: ``worker@host, pid 4711 (not seen for 3 m)``."""
        return _joined(self._name, "", self._silence)

    @property
    def text(self) -> str:
        """As :attr:`who`, and since when: of today without the date."""
        began = "" if self.since is None else _("since %(moment)s") % {"moment": clock(self.since, self.now)}
        return _joined(self._name, began, self._silence)

    @property
    def _name(self) -> str:
        if self.name is None:
            return _unknown(self.pid)
        return _("%(name)s, pid %(pid)s") % {"name": harmless(self.name), "pid": self.pid}

    @property
    def _silence(self) -> str:
        return "" if self.worker is None else silence(self.worker, self.now)


@dataclass(frozen=True, slots=True)
class Fleet:
    """The workers that have written within a day, by instance, without the tasks that they know."""

    now: datetime
    workers: Mapping[str, Worker]

    def holder_of(self, owner: str | None, began: datetime | None = None) -> Holder:
        """Who an owner id names, who took the key when it ``began``."""
        instance, pid = _parts(owner)
        return Holder(self.now, self.workers.get(instance), pid, began)


@dataclass(slots=True)
class Working:
    """A worker, as :func:`overview` shows it, and the keys that its processes hold, the oldest first."""

    worker: Worker
    is_alive: bool
    queues: list[str]
    runs: list[IdempotencyKey] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Overview:
    """The workers that live, first, or were seen within an hour, and what they run.

    ``strangers`` are keys that processes of no known worker hold. With ``is_part`` more workers or more
    running keys are there than :data:`LOOKED_AT`.
    """

    now: datetime
    workers: list[Working]
    strangers: list[IdempotencyKey]
    is_part: bool


def holder_of(store: LedgerStore, owner: str | None, began: datetime | None = None) -> Holder:
    """Who an owner id names, by one query; for a list ask :func:`fleet` once."""
    instance, _pid = _parts(owner)
    return fleet(store, instances=[instance]).holder_of(owner, began)


def holder(row: IdempotencyKey, now: datetime) -> Holder:
    """Who has a key, as its row was read at ``now``, by one query; for a list ask :func:`fleet` once."""
    instance, pid = _parts(row.owner)
    alias = row._state.db or settings().database  # noqa: SLF001  Django's own, for this
    worker = Worker.objects.using(alias).defer("tasks", "queues").filter(instance=instance).first()
    return Holder(now, worker, pid, row.started_at)


def living_workers(store: LedgerStore) -> list[Worker]:
    """The workers that were seen within :data:`WORKER_SILENT_AFTER` seconds and have not ended."""
    moment = shifted(database_now(store), -SILENT_AFTER)
    alive = Worker.objects.using(store.connection.alias).filter(seen_at__gt=moment, stopped_at__isnull=True)
    return list(alive.order_by("name")[:LOOKED_AT])


def fleet(
    store: LedgerStore, *, instances: Iterable[str] | None = None, now: datetime | None = None
) -> Fleet:
    """The workers that were seen last, or those of these instances; ``now`` is the database's time."""
    rows = Worker.objects.using(store.connection.alias).defer("tasks", "queues")
    if instances is not None:
        rows = rows.filter(instance__in=list(instances))
    found = {row.instance: row for row in rows.order_by("-seen_at")[:LOOKED_AT]}
    return Fleet(now or database_now(store), found)


def overview(store: LedgerStore) -> Overview:
    """The workers and what they run, by two queries of at most :data:`LOOKED_AT` rows."""
    alias, now = store.connection.alias, database_now(store)
    recent = Worker.objects.using(alias).defer("tasks").filter(seen_at__gt=shifted(now, -RECENTLY))
    workers = [_working(row, now) for row in recent.order_by("-seen_at")[: LOOKED_AT + 1]]
    running = running_keys(alias)
    by_instance = defaultdict(list)
    for row in sorted(running[:LOOKED_AT], key=lambda row: row.started_at or row.created_at):
        by_instance[_parts(row.owner)[0]].append(row)
    for each in workers:
        each.runs = by_instance.pop(each.worker.instance, [])
    workers.sort(key=lambda each: (not each.is_alive, each.worker.name))
    strangers = [row for rows in by_instance.values() for row in rows]
    is_part = len(workers) > LOOKED_AT or len(running) > LOOKED_AT
    return Overview(now, workers[:LOOKED_AT], strangers, is_part)


def running_keys(alias: str) -> list[IdempotencyKey]:
    """The keys RUNNING whose leases end first, without their texts: one more than :data:`LOOKED_AT`."""
    rows = IdempotencyKey.objects.using(alias).filter(state=State.RUNNING).defer("message", "result")
    return list(rows.order_by("due_at")[: LOOKED_AT + 1])


def leader_words(holder: str) -> str:
    """Who leads the sweeper or beat, from the ``host:pid:random`` by which a lease names it: host and pid."""
    host, pid, mark = (["", "", "", *holder.rsplit(":", 2)])[-3:]
    if not (host and mark and pid.isdecimal()):
        return harmless(holder)
    return _("%(host)s, pid %(pid)s") % {"host": harmless(host), "pid": pid}


def worker_words(recorded: str) -> str:
    """The worker of a failed attempt: its name, also where only an owner id was recorded of it."""
    return _unknown(_parts(recorded)[1]) if _OWNER.fullmatch(recorded) else recorded


def clock(moment: datetime, now: datetime) -> str:
    """A moment in the current time zone: the time alone where it is of today."""
    local, today = (timezone.localtime(exact(each)) for each in (moment, now))
    return local.strftime("%H:%M:%S" if local.date() == today.date() else "%Y-%m-%d %H:%M:%S")


def pid_of(owner: str | None) -> int | None:
    """The process of an owner id."""
    return _parts(owner)[1]


def instance_of(owner: str | None) -> str:
    """The worker's part of an owner id."""
    return _parts(owner)[0]


def is_alive(worker: Worker, now: datetime) -> bool:
    """Whether a worker was seen lately and has not said that it ends."""
    return worker.stopped_at is None and exact(now) - exact(worker.seen_at) < SILENT_AFTER


def names_in(text: str) -> list[str] | None:
    """What a worker has written of its queues or its tasks; None where that is no list."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return list(map(str, found)) if isinstance(found, list) else None


def silence(worker: Worker, now: datetime) -> str:
    """For how long a worker has said nothing, in brackets; nothing for one that lives."""
    if is_alive(worker, now):
        return ""
    words = _("(not seen for %(span)s)") if worker.stopped_at is None else _("(stopped %(span)s ago)")
    return words % {"span": since(worker.seen_at, now)}


def _working(row: Worker, now: datetime) -> Working:
    return Working(row, is_alive(row, now), names_in(row.queues) or [])


def _parts(owner: str | None) -> tuple[str, int | None]:
    """The worker's instance and the process of an owner id."""
    instance, _colon, rest = (owner or "").partition(":")
    pid = rest.partition(":")[0]
    return instance, int(pid) if pid.isdecimal() and len(pid) <= _DIGITS else None


def _unknown(pid: int | None) -> str:
    words = _("a process of an unknown worker (pid %(pid)s)")
    return words % {"pid": pid} if pid is not None else _("a process of an unknown worker")


def _joined(name: str, began: str, silence: str) -> str:
    named = ", ".join(filter(None, (name, began)))
    return f"{named} {silence}".rstrip()
