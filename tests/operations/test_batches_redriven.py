"""A batch whose records failed is mended, redriven and finished: what was done stays done, once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from django_idempotent_tasks import submit_batch
from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.states import State
from tests.support.batches import APPS, Desk, desk, done, failures, outcomes, texts
from tests.support.uploads import as_the_project_s

pytestmark = pytest.mark.django_db(transaction=True, databases=["default"], available_apps=APPS)
__all__ = ["desk"]


@pytest.fixture(autouse=True)
def _known(desk: Desk) -> Iterator[None]:
    with as_the_project_s(desk.app):
        yield


class Broken:
    """A provider that refuses some records until it is mended."""

    def __init__(self, *values: str, error: type[Exception] = ValueError) -> None:
        self.values, self.error = set(values), error

    def __call__(self, _task: Any, record: Any) -> None:
        if record.value in self.values:
            raise self.error(record.value)


def test_failed_records_run_again_in_new_chunks_with_all_that_their_calls_had(desk: Desk) -> None:
    broken = Broken("r1", "r7", "r8")
    task = desk.registering(broken, permanent_errors=(ValueError,))
    batch = desk.submit(task, texts(10), kwargs={"upload": 17}, priority=3, scope="tenant-1")
    desk.run()
    assert (batch.refresh().state, batch.counts["fatal"]) == ("finished", 3)
    broken.values.clear()
    found = batch.redrive("fatal", by="ann", reason="mended")
    assert (found.chunks, found.records, batch.state) == (1, 3, "running")
    (message,) = desk.arrived()
    assert (message["kwargs"]["upload"], message["properties"]["priority"]) == (17, 3)
    desk.deliver(message)
    assert (batch.refresh().state, batch.counts["ok"], batch.counts["fatal"]) == ("finished", 10, 0)
    assert sorted(done()) == sorted(texts(10))
    assert (failures(), outcomes()) == ([], ["oxooo", "ooxxo", "ooo"])
    assert desk.run() == []
    assert desk.finished == [str(batch.id)]  # once, also after a redrive


def test_a_dead_chunk_goes_on_where_it_was(desk: Desk) -> None:
    broken = Broken("r2", error=ConnectionError)
    batch = desk.submit(desk.registering(broken, max_retries=0), texts(5))
    desk.run()
    assert (batch.refresh().state, batch.chunks["needs_attention"]) == ("needs_attention", 1)
    assert desk.attention == [str(batch.id)]
    broken.values.clear()
    assert batch.redrive(reason="mended").chunks == 1
    assert batch.state == "running"
    desk.sweep(after=0)
    desk.run()
    assert (batch.refresh().state, done()) == ("finished", ["r0", "r1", "r3", "r4", "r2"])
    assert desk.finished == [str(batch.id)]


def test_a_cancelled_batch_stops_its_submission_and_its_chunks(desk: Desk) -> None:
    task = desk.registering()
    batch = desk.submit(task, texts(10))
    assert batch.cancel("the wrong file", by="ann") is True
    assert batch.cancel("again", by="bob") is False
    assert (batch.state, batch.counts["dropped"]) == ("cancelled", 10)
    desk.run()
    assert (done(), desk.finished) == ([], [])
    again = desk.submit(task, texts(10))
    assert (again.id, again.created, again.state) == (batch.id, False, "cancelled")
    assert {row.state for row in IdempotencyKey.objects.all()} == {State.CANCELLED}


def test_a_batch_of_eager_calls_is_redriven_where_it_is_asked_for(desk: Desk) -> None:
    broken = Broken("r1")
    task = desk.registering(broken, permanent_errors=(ValueError,))
    desk.app.conf.task_always_eager = True
    batch = submit_batch(task, texts(3), batch_key="eager")
    assert batch.refresh().counts["fatal"] == 1
    broken.values.clear()
    assert batch.redrive("fatal").records == 1
    assert (batch.refresh().state, batch.counts["ok"]) == ("finished", 3)


@pytest.mark.parametrize("propagates", [False, True])
def test_dead_chunks_of_eager_calls_go_on_where_they_are_redriven(desk: Desk, propagates: bool) -> None:
    broken = Broken("r1", "r3", error=ConnectionError)
    task = desk.registering(broken, max_retries=0)
    desk.app.conf.update(task_always_eager=True)
    batch = submit_batch(task, texts(4), chunk_size=2, batch_key="eager")
    assert batch.refresh().chunks["needs_attention"] == 2
    desk.app.conf.update(task_eager_propagates=propagates)
    broken.values.remove("r3")
    assert batch.redrive().chunks == 2
    assert (batch.refresh().state, batch.chunks["needs_attention"]) == ("needs_attention", 1)
    broken.values.clear()
    assert batch.redrive().chunks == 1
    assert (batch.refresh().state, sorted(done())) == ("finished", texts(4))


@pytest.mark.parametrize("verb", ["redrive", "cancel"])
@pytest.mark.parametrize("given", [{"reason": None}, {"reason": "mended", "by": None}])
def test_a_decision_without_a_text_is_refused_before_anything_changes(
    desk: Desk, verb: str, given: dict[str, Any]
) -> None:
    batch = desk.submit(desk.registering(Broken("r2", error=ConnectionError), max_retries=0), texts(5))
    desk.run()
    with pytest.raises(TypeError, match="is a text, not None"):
        getattr(batch, verb)(**given)
    assert (batch.refresh().state, batch.chunks["needs_attention"]) == ("needs_attention", 1)


def test_a_category_that_is_none_is_refused(desk: Desk) -> None:
    batch = desk.submit(desk.registering(), texts(1))
    with pytest.raises(ValueError, match="no category"):
        batch.redrive("ok")
