"""Chunks of records in a real worker: ``records()`` beside plain Celery chunks that write the same rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from django.db.models import Max, Min

from benchmarks.figures.arithmetic import alternating, compare
from benchmarks.figures.goals import RECORDS, at_least
from benchmarks.machine.celery import app
from benchmarks.machine.cpu import server_seconds, worker_seconds
from benchmarks.models import Work
from benchmarks.throughput.fleet import BrokenBenchmark, Fleet
from benchmarks.throughput.worker import GUARDED_KEPT, PLAIN_KEPT, Role
from django_idempotent_tasks import submit_batch
from django_idempotent_tasks.models import Batch, BatchState
from example_project.demo.programs import wait_until
from example_project.servers import Server

PLAIN, GUARDED = "plain chunks, a transaction a record", "records()"
CHUNK = 50
SECONDS_PER_RECORD, BASE_SECONDS = 0.2, 60.0

#: When all is done: the moment, by the database's clock, or None while it is not.
End = Callable[[], Any]


def chunks(server: Server | None, logs: Path, records: int, rounds: int) -> dict[str, Any]:
    """Records a second, and milliseconds of processors a record, of both ways in the same rounds."""
    app.loader.import_default_modules()
    rates: dict[str, list[float]] = {PLAIN: [], GUARDED: []}
    used: dict[str, list[float]] = {PLAIN: [], GUARDED: []}
    fleet = Fleet(logs, (PLAIN_KEPT, GUARDED_KEPT))
    try:
        fleet.start()
        for number, order in enumerate(alternating([PLAIN, GUARDED], rounds + 1)):
            for way in order:
                # The first round warms the workers up.
                rate, cpu = _round(
                    way, server, fleet, f"{number}/{way[:5]}", records if number else 10 * CHUNK
                )
                if number:
                    rates[way].append(rate)
                    used[way].append(cpu)
        complaints = fleet.complaints()
    finally:
        fleet.stop()
    if complaints:
        raise BrokenBenchmark("\n".join(["the workers complained:", *complaints]))
    beside = compare(rates[GUARDED], rates[PLAIN])
    return {
        way: {"records/s": round(median(rates[way])), "processor ms a record": round(median(used[way]), 3)}
        for way in rates
    } | {
        "records() beside plain": {
            "ratio": round(beside.of_medians, 2),
            "from": round(beside.lowest, 2),
            "to": round(beside.highest, 2),
            f"goal >= {RECORDS}": at_least(beside.of_medians, RECORDS),
        }
    }


def _round(way: str, server: Server | None, fleet: Fleet, batch: str, records: int) -> tuple[float, float]:
    role: Role = PLAIN_KEPT if way == PLAIN else GUARDED_KEPT
    queue = f"benchmarks.{batch}"
    end = (_fill_plain if way == PLAIN else _fill_guarded)(batch, queue, records)
    before = _used(server, fleet, role)
    with fleet.consuming(role, queue):
        longest = BASE_SECONDS + SECONDS_PER_RECORD * records
        if not wait_until(lambda: end() is not None, seconds=longest, every=0.2):
            raise BrokenBenchmark(f"{way}: {records} records were not done within {longest:.0f} s")
        cpu = _used(server, fleet, role) - before
    rows = Work.objects.filter(batch=batch)
    if rows.count() != records or rows.values("number").distinct().count() != records:
        raise BrokenBenchmark(f"{way}: {rows.count()} rows instead of {records}")
    seconds = (end() - rows.aggregate(first=Min("at"))["first"]).total_seconds()
    return records / seconds, 1e3 * cpu / records


def _fill_plain(batch: str, queue: str, records: int) -> End:
    task: Any = app.tasks["benchmarks.throughput.plain.write_chunk"]
    for first in range(0, records, CHUNK):
        task.apply_async((batch, list(range(first, min(first + CHUNK, records)))), queue=queue)
    rows = Work.objects.filter(batch=batch)
    return lambda: rows.aggregate(last=Max("at"))["last"] if rows.count() >= records else None


def _fill_guarded(batch: str, queue: str, records: int) -> End:
    task = app.tasks["benchmarks.throughput.guarded.registers"]
    submitted = submit_batch(
        task, range(records), batch_key=batch, chunk_size=CHUNK, kwargs={"batch": batch}, queue=queue
    )
    finished = Batch.objects.filter(id=submitted.id, state=BatchState.FINISHED)
    return lambda: finished.values_list("finished_at", flat=True).first()


def _used(server: Server | None, fleet: Fleet, role: Role) -> float:
    of_server = server_seconds(server.pid) if server is not None else 0.0
    return (worker_seconds(*fleet.processes(role)) or 0.0) + (of_server or 0.0)
