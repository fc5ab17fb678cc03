"""Samples what a run takes: processor time and memory of each role, and the rows of the ledger's tables."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from django.apps import apps
from django.db import Error as DatabaseError
from django.db import connection

from benchmarks.machine.cpu import parse as parse_cpu
from benchmarks.machine.memory import parse as parse_memory

#: Seconds between two samples of processor time, and of memory and tables.
EVERY, SELDOM = 2.0, 15.0


@dataclass(frozen=True)
class Sample:
    """Megabytes of each role's largest process, and rows of each table, at a moment of the run."""

    at: float
    memory: Mapping[str, float]
    rows: Mapping[str, int]


@dataclass
class Levels:
    """The samples of a run; ``roots`` are the first processes of each role."""

    began: float = field(default_factory=time.monotonic)
    samples: list[Sample] = field(default_factory=list)
    _cpu: dict[tuple[str, int], float] = field(default_factory=dict)
    _next: tuple[float, float] = (0.0, 0.0)

    def look(self, roots: Mapping[str, Iterable[int]]) -> None:
        """Take the samples that are due."""
        now, (soon, later) = time.monotonic(), self._next
        if now < soon:
            return
        found = list(_processes(roots))
        for role, pid in found:
            with suppress(OSError):
                self._cpu[role, pid] = parse_cpu(Path(f"/proc/{pid}/stat").read_text(), ended_too=False)
        if now >= later:
            self.samples.append(Sample(now - self.began, _memory(found), _rows()))
            later = now + SELDOM
        self._next = now + EVERY, later

    def seconds(self) -> dict[str, float]:
        """Processor seconds of each role, those of processes that have ended too, up to their last sample."""
        total: dict[str, float] = defaultdict(float)
        for (role, _pid), seconds in self._cpu.items():
            total[role.partition(" ")[0]] += seconds
        own = os.times()
        return {**total, "run": own.user + own.system}


def _processes(roots: Mapping[str, Iterable[int]]) -> Iterator[tuple[str, int]]:
    """Each role's processes, and as ``role child`` what those have started."""
    parents = dict(_parents())
    for role, pids in roots.items():
        firsts = set(pids)
        for pid in parents:
            if pid in firsts:
                yield role, pid
            elif _descends(pid, firsts, parents):
                yield f"{role} child", pid


def _parents() -> Iterator[tuple[int, int]]:
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, IndexError):
            yield int(entry.parent.name), int(entry.read_text().rpartition(")")[2].split()[1])


def _descends(pid: int, firsts: set[int], parents: Mapping[int, int]) -> bool:
    while (pid := parents.get(pid, 0)) > 1:
        if pid in firsts:
            return True
    return False


def _memory(found: Iterable[tuple[str, int]]) -> dict[str, float]:
    largest: dict[str, float] = {}
    for role, pid in found:
        with suppress(OSError, KeyError):
            memory = parse_memory(Path(f"/proc/{pid}/smaps_rollup").read_text()).rss
            largest[role] = max(largest.get(role, 0.0), memory)
    return largest


def _rows() -> dict[str, int]:
    """Rows of the ledger's tables; nothing while the database is away."""
    found: dict[str, int] = {}
    try:
        with connection.cursor() as cursor:
            for model in apps.get_app_config("django_idempotent_tasks").get_models():
                if not model._meta.proxy:
                    cursor.execute(f"SELECT count(*) FROM {model._meta.db_table}")  # noqa: S608  our own
                    found[model._meta.model_name or ""] = int(cursor.fetchone()[0])
    except DatabaseError:
        connection.close()
    return found
