"""Processor time of processes, as Linux accounts for it: steadier than a clock where others work as well."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from example_project.servers.process import children

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def process_seconds(*pids: int) -> float | None:
    """What these processes have used; None where the system does not tell."""
    return _sum(pids, ended_too=False)


def worker_seconds(parent: int, pool: Iterable[int]) -> float | None:
    """What a worker's parent and the processes of its pool have used; None where the system does not tell."""
    return process_seconds(parent, *pool)


def server_seconds(postmaster: int) -> float | None:
    """What a PostgreSQL server has used, with the connections that have ended."""
    running = _sum(children(postmaster), ended_too=False)
    own = _sum([postmaster], ended_too=True)
    return None if running is None or own is None else running + own


def _sum(pids: Iterable[int], *, ended_too: bool) -> float | None:
    total = 0.0
    for pid in pids:
        try:
            text = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            if not Path("/proc/self/stat").exists():
                return None
            continue  # it has ended meanwhile
        total += parse(text, ended_too=ended_too)
    return total


def parse(text: str, *, ended_too: bool) -> float:
    """Read the seconds from ``/proc/PID/stat``; ``ended_too`` adds those of children that have ended."""
    # After the command's name, which may hold anything, in parentheses; then the 14th to 17th field.
    ticks = text.rpartition(")")[2].split()[11 : 15 if ended_too else 13]
    return sum(map(int, ticks)) / TICKS_PER_SECOND
