"""A process dies while it redrives or cancels a batch: each record is done once, whoever goes on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from django_idempotent_tasks import PermanentError, TransientError
from django_idempotent_tasks.ledger.stores.clock import shifted
from django_idempotent_tasks.operations.batches import Batch
from tests.crashes.test_batches import LATER, Act, clear, dies, watched
from tests.crashes.world import die
from tests.support.batches import APPS, Desk, done, failures, texts
from tests.support.uploads import as_the_project_s

pytestmark = pytest.mark.django_db(transaction=True, databases=["default"], available_apps=APPS)
ALIAS = "default"
NUMBER = 8


class Upload:
    """A batch of eight records: three are fatal and a chunk is a dead letter, until all is mended."""

    def __init__(self, desk: Desk) -> None:
        self.desk, self.is_mended = desk, False
        self.task = desk.registering(self._work, max_retries=0)

    def _work(self, _task: Any, record: Any) -> None:
        if not self.is_mended and record.value in {"r0", "r2", "r4"}:
            raise PermanentError("no")
        if not self.is_mended and record.value == "r7":
            raise TransientError("away")

    def begun(self) -> Batch:
        """The batch after its first run: mended, and not yet redriven."""
        clear(self.desk, ALIAS)
        self.is_mended = False
        batch = self.desk.submit(self.task, texts(NUMBER), chunk_size=2)
        self.desk.run()
        self.is_mended = True
        return batch.refresh()

    def recover(self) -> None:
        """Let sweepers and workers go on until all is quiet."""
        for step in range(1, 4):
            with shifted(step * LATER):
                self.desk.sweep(step * LATER)
                self.desk.run()
                self.desk.follow()
                self.desk.run()


@pytest.fixture
def upload(desk: Desk) -> Iterator[Upload]:
    with as_the_project_s(desk.app):
        yield Upload(desk)


def moments_of(act: Act) -> int:
    """How many statements and commits it has."""
    seen: list[None] = []
    with watched(ALIAS, lambda: seen.append(None)):
        act()
    return len(seen)


def die_at(number: int, act: Act) -> None:
    """Let a process die before its statement or commit of this number."""
    left = iter(range(number))

    def run() -> None:
        with watched(ALIAS, lambda: die() if next(left, None) is None else None):
            act()

    dies(run)


def test_a_death_at_any_statement_of_a_redrive_costs_no_record_and_doubles_none(upload: Upload) -> None:
    def redrive(batch: Batch) -> None:
        batch.redrive()
        batch.redrive("fatal")

    first = upload.begun()
    number = moments_of(lambda: redrive(first))
    print(f"{number} statements and commits")
    assert number > 20
    faults = []
    for moment in range(number):
        batch = upload.begun()
        die_at(moment, lambda: redrive(batch))  # noqa: B023  at once
        redrive(batch.refresh())
        upload.recover()
        found = (sorted(done()), failures(), batch.refresh().state, batch.counts["ok"])
        if found != (texts(NUMBER), [], "finished", NUMBER) or len(upload.desk.finished) != 1:
            faults.append(f"death at {moment}: {found}, callbacks: {upload.desk.finished}")
    assert not faults, "\n".join(faults)


def test_a_death_at_any_statement_of_a_cancel_leaves_no_chunk_to_begin(upload: Upload) -> None:
    def submitted() -> Batch:
        clear(upload.desk, ALIAS)
        return upload.desk.submit(upload.task, texts(NUMBER), chunk_size=2)

    first = submitted()
    number = moments_of(lambda: first.cancel("the wrong file"))
    assert number > 4
    for moment in range(number):
        batch = submitted()
        die_at(moment, lambda: batch.cancel("the wrong file"))  # noqa: B023  at once
        batch.refresh().cancel("the wrong file")
        with shifted(LATER):
            upload.desk.sweep(LATER)
        upload.desk.follow()
        assert (batch.refresh().state, batch.counts["dropped"]) == ("cancelled", NUMBER), moment
