"""One round of one variant: fill a queue, let it be worked off, and see that each call ended as it must."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.db import connection
from django.db.models import Max, Min, QuerySet

from benchmarks.figures.arithmetic import per_task
from benchmarks.machine.celery import app
from benchmarks.machine.cpu import process_seconds, server_seconds
from benchmarks.models import Work
from benchmarks.throughput.fleet import BrokenBenchmark, Fleet
from benchmarks.throughput.plain import mark
from benchmarks.throughput.variants import Kind, Variant
from django_idempotent_tasks.models import DuplicateAttempt, IdempotencyKey
from django_idempotent_tasks.states import State
from example_project.demo.programs import wait_until
from example_project.servers import Server

#: Makes the message that is stored with a claim about 600 bytes long.
NOTE = "n" * 60
#: A queue takes at most this long, and its last traces this long.
BASE_SECONDS, SECONDS_PER_TASK, SETTLE_SECONDS = 60.0, 0.2, 10.0


@dataclass(frozen=True)
class Measured:
    """Tasks a second; bytes of WAL, and milliseconds of processor time, a task."""

    rate: float
    wal: float
    parent_cpu: float | None
    pool_cpu: float | None
    server_cpu: float | None

    @property
    def cpu(self) -> float | None:
        """The worker's parent, its children and the server together."""
        if self.parent_cpu is None or self.pool_cpu is None or self.server_cpu is None:
            return None
        return self.parent_cpu + self.pool_cpu + self.server_cpu


@dataclass(frozen=True)
class _Reading:
    """What has been used so far: bytes of WAL, seconds of processor time."""

    wal: float
    parent: float | None
    pool: float | None
    server: float | None


def task_id(batch: str, number: int) -> str:
    """A task id as long as Celery's own, by which a round finds its rows."""
    return f"{task_prefix(batch)}{number:05d}"


def task_prefix(batch: str) -> str:
    """What the task ids of a batch begin with."""
    return f"{batch:-<31}"


class Track:
    """Where rounds are run: the workers and the database server, with ``count`` tasks a round.

    The processor time of a ``server`` that is not ours (None) is not known.
    """

    def __init__(self, fleet: Fleet, server: Server | None, count: int) -> None:
        self.fleet = fleet
        self.server = server
        self.count = count

    def run(self, variant: Variant, batch: str) -> Measured:
        """Run one round under a new batch name.

        The time is that of the database's clock from the mark before the first message to the mark
        after the last one, so neither the sender's speed nor the start of consuming counts.
        Raises BrokenBenchmark when not every call ended exactly once as its kind must.
        """
        # A name of its own: a worker may still be asking the broker for the queue of an earlier round.
        queue = f"benchmarks.{batch}"
        self._fill(variant, batch, queue)
        begun = self.fleet.begun(variant.role, variant.task)
        seeded = Work.objects.filter(batch=variant.seed).count()
        before = self._read(variant)
        with self.fleet.consuming(variant.role, queue):
            seconds = self._seconds(batch)
            self._expect(variant, "started", begun + self.count, self._begun(variant))
            after = self._read(variant)
            self._verify(variant, batch, seeded)
        return Measured(
            self.count / seconds,
            per_task(before.wal, after.wal, self.count),
            _milliseconds(before.parent, after.parent, self.count),
            _milliseconds(before.pool, after.pool, self.count),
            _milliseconds(before.server, after.server, self.count),
        )

    def _read(self, variant: Variant) -> _Reading:
        server = None if self.server is None else server_seconds(self.server.pid)
        parent, pool = self.fleet.processes(variant.role)
        return _Reading(wal_position(), process_seconds(parent), process_seconds(*pool), server)

    def _fill(self, variant: Variant, batch: str, queue: str) -> None:
        task = app.tasks[variant.task]
        with app.producer_pool.acquire(block=True) as producer:
            mark.apply_async((f"{batch}/mark", 0), queue=queue, producer=producer)
            for number in range(self.count):
                again = variant.kind is Kind.REDELIVERED
                options: dict[str, Any] = {"task_id": task_id(variant.seed if again else batch, number)}
                if again:  # as the broker's transport marks a restored message
                    options["delivery_info"] = {"redelivered": True}
                arguments = {
                    "batch": variant.seed if variant.kind.seeded else batch,
                    "number": number,
                    "note": NOTE,
                }
                task.apply_async(kwargs=arguments, queue=queue, producer=producer, **options)
            mark.apply_async((f"{batch}/mark", 1), queue=queue, producer=producer)

    def _seconds(self, batch: str) -> float:
        marks = Work.objects.filter(batch=f"{batch}/mark")
        longest = BASE_SECONDS + self.count * SECONDS_PER_TASK
        if not wait_until(lambda: marks.count() == 2, seconds=longest, every=0.2):  # noqa: PLR2004
            raise BrokenBenchmark(f"{batch} was not worked off within {longest:.0f} s")
        times = marks.aggregate(first=Min("at"), last=Max("at"))
        return float((times["last"] - times["first"]).total_seconds())

    def _verify(self, variant: Variant, batch: str, seeded: int) -> None:
        """Each call of the round has left what it must, and nothing else."""
        written = Work.objects.filter(batch=batch)
        new = 0 if variant.kind.seeded else self.count
        self._expect(variant, "rows written", new, written.count)
        self._expect(variant, "different rows", new, written.values("number").distinct().count)
        fresh = self.count if variant.kind is Kind.FRESH else 0
        self._expect(variant, "completed keys", fresh, completed(batch).count)
        refusals = self.count if variant.kind is Kind.DUPLICATE else 0
        refused = DuplicateAttempt.objects.filter(task_id__startswith=task_prefix(batch))
        self._expect(variant, "refused duplicates", refusals, refused.count)
        if variant.kind.seeded:
            rows = Work.objects.filter(batch=variant.seed)
            self._expect(variant, "rows of the first calls", seeded, rows.count)
            self._expect(variant, "keys of the first calls", self.count, completed(variant.seed).count)

    def _begun(self, variant: Variant) -> Callable[[], int]:
        return lambda: self.fleet.begun(variant.role, variant.task)

    @staticmethod
    def _expect(variant: Variant, what: str, wanted: int, count: Callable[[], int]) -> None:
        """The last call may still be on its way when the mark after it is written."""
        if not wait_until(lambda: count() == wanted, seconds=SETTLE_SECONDS):
            raise BrokenBenchmark(f"{variant.title}: {what}: {count()} instead of {wanted}")


def completed(batch: str) -> QuerySet[IdempotencyKey]:
    """The keys of a batch that succeeded in one attempt."""
    keys = IdempotencyKey.objects.filter(task_id__startswith=task_prefix(batch))
    return keys.filter(state=State.SUCCEEDED, attempts=1, crashes=0)


def _milliseconds(before: float | None, after: float | None, count: int) -> float | None:
    return None if before is None or after is None else per_task(before, after, count) * 1000


def wal_position() -> float:
    """How many bytes of WAL the server has written."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn")
        return float(cursor.fetchone()[0])
