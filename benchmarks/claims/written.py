"""What a claim and its completion write, and how many statements and commits they are, by the server."""

from __future__ import annotations

from functools import partial

from benchmarks.claims.tables import FEW, execute, write_images
from benchmarks.claims.work import KINDS, store_of
from benchmarks.figures.arithmetic import per_task
from benchmarks.handler.counts import counted, start_counting
from example_project.servers import Server

CALLS = 200
POSITION = "SELECT pg_current_wal_insert_lsn() - '0/0'"

#: Bytes of WAL a task, by kind.
Written = dict[str, float]


def written(alias: str, rows: int, *, images: bool) -> Written:
    """Bytes of each kind, just after a checkpoint or (``images`` false) without whole pages at all."""
    write_images("on" if images else "off")
    found = {}
    for kind, work in KINDS.items():
        execute(alias, "CHECKPOINT")
        store, before = store_of(alias), _position(alias)
        for _ in range(CALLS):
            work(store, rows)
        found[kind] = per_task(before, _position(alias), CALLS)
    return found


def count(server: Server, rows: int) -> dict[str, tuple[float | None, float]]:
    """Statements and commits a task, by kind; restarts the server with its counter."""
    can_count = start_counting(server)
    store = store_of(FEW)
    found = {}
    for kind, work in KINDS.items():
        statements, commits, _wal = counted(partial(work, store, rows), can_count=can_count)
        found[kind] = (statements if can_count else None, commits)
    return found


def _position(alias: str) -> float:
    return float(execute(alias, POSITION)[0][0])
