"""A process dies while it submits a batch, works on a chunk or ends one: each record is done once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connections

from django_idempotent_tasks import PermanentError, TransientError
from django_idempotent_tasks.ledger import pauses
from django_idempotent_tasks.ledger.stores.clock import shifted
from django_idempotent_tasks.models import Batch as BatchRow
from django_idempotent_tasks.models import BatchChunk, BatchRecord, IdempotencyKey
from django_idempotent_tasks.sending import pieces
from tests.crashes.world import DEAD, World, die
from tests.sample.models import Effect
from tests.support.batches import APPS, Desk, done, failures, outcomes, texts, write
from tests.support.deliveries import ALIASES

pytestmark = pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS)

LEASE = 60
#: Seconds: longer than a lease, a retry's wait and REPUBLISH_AFTER.
LATER = 4000
CHUNK = 50

Act = Callable[[], object]


def dies(act: Act) -> None:
    """Let a process do this, and die at it."""
    assert World().run_mortal(act) == DEAD


def reach(deadly: str, place: str) -> None:
    """Die where it was asked for."""
    if place == deadly:
        die()


def deadly_task(desk: Desk) -> Any:
    """A task that dies in its first attempt at the place that its argument names, or at each record once."""

    def register(task: Any, records: list[Any], deadly: str) -> None:
        token = task.idempotency.token
        at = f"written {token - 1}" if deadly == "each" else deadly if token == 1 else ""
        for record in task.idempotency.records(records):
            reach(at, f"before {record.index}")
            with record:
                reach(at, f"inside {record.index}")
                write(record.value)
                reach(at, f"written {record.index}")
            reach(at, f"after {record.index}")
        reach(at, "end")

    return desk.chunked(register, lease=LEASE, max_crashes=CHUNK + 1)


PLACES = [f"{word} {number}" for word in ("before", "inside", "after") for number in (0, 3, 4)]


@pytest.mark.parametrize("place", [*PLACES, "end"])
def test_a_chunk_that_is_killed_goes_on_at_its_record(desk: Desk, alias: str, place: str) -> None:  # noqa: ARG001
    batch = desk.submit(deadly_task(desk), texts(5), kwargs={"deadly": place})
    (message,) = desk.arrived()
    dies(lambda: desk.deliver(message))
    word, _, number = place.partition(" ")
    before = 5 if word == "end" else int(number) + (word == "after")
    assert (done(), outcomes()) == (texts(before), ["o" * before + "." * (5 - before)])
    with shifted(LEASE + 1):
        desk.deliver(message, redelivered=True)
        desk.run()
    assert (done(), batch.refresh().state) == (texts(5), "finished")
    assert (batch.counts["ok"], desk.finished) == (5, [str(batch.id)])


def test_a_chunk_that_is_killed_at_each_of_its_records_does_each_once(desk: Desk, alias: str) -> None:  # noqa: ARG001
    """Fifty attempts, each of which dies between the work for its record and the outcome."""
    batch = desk.submit(deadly_task(desk), texts(CHUNK), chunk_size=CHUNK, kwargs={"deadly": "each"})
    (message,) = desk.arrived()
    for number in range(CHUNK):
        with shifted(number * LATER):
            dies(lambda: desk.deliver(message, redelivered=number > 0))  # noqa: B023  at once
        assert outcomes() == ["o" * number + "." * (CHUNK - number)]
    with shifted(CHUNK * LATER):
        desk.deliver(message, redelivered=True)
        desk.run()
    assert (done(), batch.refresh().state) == (texts(CHUNK), "finished")
    assert (batch.counts["ok"], desk.finished) == (CHUNK, [str(batch.id)])


def clear(desk: Desk, alias: str) -> None:
    """Forget everything, and what this process knows of pauses: each run reads them, whatever the time."""
    pauses.forget()
    for model in (Effect, BatchRow, BatchChunk, BatchRecord, IdempotencyKey):
        model.objects.using(alias).all().delete()
    desk.arrived()
    desk.finished.clear()
    desk.attention.clear()


# -- at any statement --


class Import:
    """A batch of seven records in three chunks, one of which is fatal and one tried again once."""

    def __init__(self, desk: Desk, alias: str) -> None:
        self.desk, self.alias = desk, alias
        self.task = desk.registering(self._work, lease=LEASE, max_retries=5)

    def _work(self, task: Any, record: Any) -> None:
        if record.value == "r1":
            raise PermanentError("no")
        if record.value == "r4" and task.idempotency.attempt == 1:
            raise TransientError("later")

    def submit(self) -> object:
        """Send it, in two transactions."""
        return self.desk.submit(self.task, iter(texts(7)), batch_key=1, chunk_size=3)

    def run(self) -> None:
        """Work until nothing arrives."""
        self.desk.run()

    def recover(self) -> None:
        """Go on with other processes until all is quiet."""
        self.submit()
        for step in range(1, 5):
            with shifted(step * LATER):
                self.desk.sweep(step * LATER)
                self.desk.run()
                self.desk.follow()
                self.desk.run()
            if not self.faults():
                return

    def faults(self) -> list[str]:
        """What is wrong now that all should be over."""
        (row,) = BatchRow.objects.using(self.alias)
        found = {
            f"done: {done()}": sorted(done()) != sorted(set(texts(7)) - {"r1"}),
            f"outcomes: {outcomes()}": outcomes() != ["ofo", "ooo", "o"],
            f"failures: {failures()}": [index for index, *_ in failures()] != [1],
            f"the batch is {row.state}": row.get_state_display() != "finished",
            f"callbacks: {self.desk.finished}": len(self.desk.finished) != 1,
            f"attention: {self.desk.attention}": bool(self.desk.attention),
        }
        return [fault for fault, is_so in found.items() if is_so]


@pytest.fixture
def upload(desk: Desk, alias: str, monkeypatch: pytest.MonkeyPatch) -> Import:
    """An import that is about to begin."""
    monkeypatch.setattr(pieces, "GROUP", 6)
    return Import(desk, alias)


@contextmanager
def watched(alias: str, look: Callable[[], object]) -> Iterator[None]:
    """Look before each statement and each commit of this thread."""
    connection, commit = connections[alias], connections[alias].commit

    def execute(statement: Callable[..., Any], *arguments: Any) -> Any:
        look()
        return statement(*arguments)

    def end() -> None:
        look()
        commit()

    with connection.execute_wrapper(execute):
        connection.commit = end  # type: ignore[method-assign]
        try:
            yield
        finally:
            connection.commit = commit  # type: ignore[method-assign]


def moments_of(upload: Import, act: Act) -> int:
    """How many statements and commits a clean run has."""
    seen: list[None] = []
    with watched(upload.alias, lambda: seen.append(None)):
        act()
    upload.recover()
    assert upload.faults() == []
    return len(seen)


def die_at(upload: Import, number: int, act: Act) -> None:
    """Let a process die before its statement or commit of this number."""
    left = iter(range(number))

    def run() -> None:
        with watched(upload.alias, lambda: die() if next(left, None) is None else None):
            act()

    dies(run)


@pytest.mark.parametrize("what", ["submits", "works"])
def test_a_death_at_any_statement_or_commit_is_recovered_from(upload: Import, what: str) -> None:
    faults: list[str] = []

    def begin() -> Act:
        clear(upload.desk, upload.alias)
        if what == "submits":
            return upload.submit
        upload.submit()
        return upload.run

    number = moments_of(upload, begin())
    print(f"{what}: {number} statements and commits")
    assert number > 20
    for moment in range(number):
        die_at(upload, moment, begin())
        upload.recover()
        faults += [f"death at {moment}: {fault}" for fault in upload.faults()]
    assert not faults, "\n".join(faults)
