"""Ten thousand chunks that eight processes end: alone, as chunks of a batch, and with a counter as a rival.

Claims, completions and what follows, through the store: no body runs, so that the end of a chunk weighs most.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import md5
from typing import Any
from uuid import UUID, uuid4

from django.db import connection, transaction

from benchmarks.machine.cpu import server_seconds
from benchmarks.throughput.fleet import BrokenBenchmark
from django_idempotent_tasks.identity.key import Identity
from django_idempotent_tasks.ledger import batches
from django_idempotent_tasks.ledger.batch_values import NewBatch, NewChunk
from django_idempotent_tasks.ledger.stores import get_store
from django_idempotent_tasks.ledger.values import Call, Claim, Wanted
from django_idempotent_tasks.models import Batch, BatchChunk, BatchState, IdempotencyKey
from django_idempotent_tasks.states import Reason
from example_project.servers import Server

PROCESSES = 8
#: Chunks that one transaction adds.
BITE = 1_000
ENDER = "import django; django.setup(); from benchmarks.parts.ends import end_share; end_share()"

ALONE, FOLLOWED, COUNTED = "without a batch", "chunks of a batch", "with a counter row that each end locks"


def ends(server: Server | None, chunks: int, rounds: int) -> dict[str, Any]:
    """For each way chunks a second, and milliseconds of processors a chunk, the best of the rounds."""
    ways: dict[str, list[dict[str, Any]]] = {ALONE: [], FOLLOWED: [], COUNTED: []}
    for _ in range(rounds):
        for way, found in ways.items():
            found.append(_round(way, server, chunks))
    return {way: max(found, key=lambda one: one["chunks/s"]) for way, found in ways.items()}


def _round(way: str, server: Server | None, chunks: int) -> dict[str, Any]:
    run = uuid4()
    _add(run, chunks)
    with _enders(way, run, chunks) as processes:
        busy, began = _server(server), time.perf_counter()
        for process in processes:
            _tell(process)
        own = sum(float(process.communicate()[0]) for process in processes)
        seconds, used = time.perf_counter() - began, _server(server) - busy
    _check(way, run)
    return {
        "chunks/s": round(chunks / seconds),
        "ms of the processes": round(1e3 * own / chunks, 3),
        "ms of the server": round(1e3 * used / chunks, 3),
    }


def _add(run: UUID, chunks: int) -> None:
    """A sealed batch with its chunks, whose calls are reserved."""
    store = get_store()
    callback = batches.prepared(Call(Identity(uuid4(), None, "end", None), "parts.end", str(run), "{}"))
    store.add_batch(NewBatch(run, "parts.chunk", None, str(run), chunk_size=1, callback=callback))
    for first in range(0, chunks, BITE):
        numbers = range(first, min(first + BITE, chunks))
        with transaction.atomic():
            store.reserve_many([Wanted(_call(run, number), 3600, 0, 0) for number in numbers])
            store.add_chunks(run, [NewChunk(n, _digest(run, n), str(n), n, 1, run) for n in numbers])
    store.seal_batch(run, records=chunks, chunks=chunks)
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE IF NOT EXISTS parts_counter (run uuid PRIMARY KEY, rest integer)")
        cursor.execute("INSERT INTO parts_counter VALUES (%s, %s)", [run, chunks])
        cursor.execute("ANALYZE")


def _check(way: str, run: UUID) -> None:
    is_finished = Batch.objects.get(id=run).state == BatchState.FINISHED
    if is_finished is not (way == FOLLOWED):
        raise BrokenBenchmark(f"{way}: the batch has not ended with its last chunk.")
    if way == FOLLOWED and IdempotencyKey.objects.filter(task="parts.end", task_id=str(run)).count() != 1:
        raise BrokenBenchmark("The callback was not reserved once.")
    for model in (IdempotencyKey, BatchChunk, Batch):
        model._default_manager.all().delete()


@contextmanager
def _enders(way: str, run: UUID, chunks: int) -> Iterator[list[subprocess.Popen[str]]]:
    """Processes that wait for a line, end their shares, and print their processor time."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", ENDER, way, run.hex, str(chunks), str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(PROCESSES)
    ]
    try:
        for process in processes:
            assert process.stdout is not None  # noqa: S101  asked for above
            process.stdout.readline()
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _tell(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None  # noqa: S101  asked for above
    process.stdin.write("go\n")
    process.stdin.flush()


def end_share() -> None:
    """In a process of its own: end each eighth chunk of a run."""
    way, run, chunks, first = sys.argv[1], UUID(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    end = _WAYS[way]
    connection.ensure_connection()
    print("ready", flush=True)
    sys.stdin.readline()
    began = time.process_time()
    for number in range(first, chunks, PROCESSES):
        end(run, number)
    print(time.process_time() - began)


def _end(run: UUID, number: int) -> None:
    store, call = get_store(), _call(run, number)
    owner = f"bench:{number}:{run.hex[:8]}"
    grant = store.claim_reserved(call, owner=owner, lease=60)
    if grant is None or not store.complete(
        Claim(call, owner, grant, 60), result=None, reason=Reason.DONE, retention=3600, window=3600
    ):
        raise BrokenBenchmark(f"The chunk {number} was not claimed, or not completed.")


def _end_and_follow(run: UUID, number: int) -> None:
    _end(run, number)
    batches.follow(get_store(), [_digest(run, number)])


def _end_and_count(run: UUID, number: int) -> None:
    with transaction.atomic():
        _end(run, number)
        with connection.cursor() as cursor:
            cursor.execute("UPDATE parts_counter SET rest = rest - 1 WHERE run = %s", [run])


_WAYS: dict[str, Callable[[UUID, int], None]] = {
    ALONE: _end,
    FOLLOWED: _end_and_follow,
    COUNTED: _end_and_count,
}


def _call(run: UUID, number: int) -> Call:
    return Call(Identity(_digest(run, number), None, str(number), None), "parts.chunk", str(number), "{}")


def _digest(run: UUID, number: int) -> UUID:
    return UUID(md5(f"{run} {number}".encode(), usedforsecurity=False).hexdigest())


def _server(server: Server | None) -> float:
    return (server_seconds(server.pid) or 0.0) if server is not None else 0.0
