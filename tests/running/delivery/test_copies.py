"""The same task id again: its end is repeated, and what it still has to do is done at its time."""

from __future__ import annotations

from typing import Any

import pytest

from django_idempotent_tasks import ManualReview, PermanentError, PoisonTask, RecordedError
from django_idempotent_tasks.ledger import orphans
from django_idempotent_tasks.ledger.atomic import Recorded
from django_idempotent_tasks.ledger.stores import get_store
from django_idempotent_tasks.ledger.stores.clock import shifted
from django_idempotent_tasks.ledger.values import Call
from django_idempotent_tasks.states import State
from django_idempotent_tasks.sweeper.prune import prune_bite
from django_idempotent_tasks.testing.contract.bench import a_failure
from tests.running.delivery.test_duplicates import LINK
from tests.support.deliveries import ALIASES, APPS
from tests.support.till import Counter, Till

pytestmark = pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS)

CRASH = a_failure("billiard.exceptions.WorkerLostError", "signal 9")

each_copy = pytest.mark.parametrize("redelivered", [False, True], ids=["sent twice", "redelivered"])


def hold(task: Any, order: int, *, id: str = "A", lease: int = 60) -> None:  # noqa: A002
    """Let a leased run have the key, as before a task was made atomic."""
    call = Call(task.idempotency_identity((order,)), task.name, id, None)
    assert get_store().claim_new(call, owner="w:1:x", lease=lease) is not None


@each_copy
def test_a_copy_of_a_completed_call_gets_its_value_and_its_links_go_on(
    till: Till, shop: Counter, *, redelivered: bool
) -> None:
    task = till.seller(shop)
    ends = [
        till.deliver(task, 7, redelivered=again, callbacks=[LINK], chain=[LINK])
        for again in (False, redelivered)
    ]
    assert [end.result for end in ends] == [{"order": 7}] * 2
    assert [sent.args for sent in till.sent] == [[{"order": 7}]] * 4
    assert (shop.runs, shop.row.token, shop.refusals) == (1, 1, [])


@pytest.mark.parametrize("mode", ["leased", "atomic"])
def test_a_copy_that_comes_long_after_the_retention_is_still_no_new_work(
    till: Till, shop: Counter, mode: str
) -> None:
    task = till.seller(shop, mode=mode, retention=3600)
    till.deliver(task, 7)
    with shifted(2 * 3600):
        prune_bite(get_store(shop.alias))
        assert till.deliver(task, 7).result == {"order": 7}
        assert till.deliver(task, 7, redelivered=True).result == {"order": 7}
    assert (shop.runs, shop.row.token) == (1, 1)


@each_copy
@pytest.mark.parametrize("error", [ValueError("no"), PermanentError("no"), ManualReview("who?")], ids=repr)
def test_a_copy_of_a_failed_call_gets_its_error_and_is_not_run(
    till: Till, shop: Counter, error: Exception, *, redelivered: bool
) -> None:
    @till.guarded()
    def sell(self: Any, order: int) -> None:  # noqa: ARG001
        shop.sell(self)
        raise error

    assert till.deliver(sell, 7).error is error
    before = shop.row
    again = till.deliver(sell, 7, redelivered=redelivered).error
    assert isinstance(again, RecordedError)
    assert str(error) in str(again)
    assert vars(shop.row) | {"_state": None} == vars(before) | {"_state": None}
    assert (shop.runs, shop.effects) == (1, [])


def test_a_retry_is_run_when_it_is_due_and_rescheduled_before(till: Till, shop: Counter) -> None:
    @till.guarded(max_retries=3)
    def sell(self: Any, order: int) -> int:
        shop.sell(self)
        if shop.runs == 1:
            raise self.retry(countdown=20)
        return order

    assert till.deliver(sell, 7).is_retried
    (copy,) = till.sent
    assert (copy.options["countdown"], copy.options["retries"]) == (20, 1)

    assert till.deliver(sell, 7, retries=1).is_ignored
    again = till.sent[-1]
    assert (again.options["task_id"], again.options["retries"]) == ("A", 1)
    assert 15 < again.options["countdown"] <= 21
    assert till.deliver(sell, 7, id="B").result["reason"] == "in_progress"
    assert (shop.state, shop.runs) == (State.RETRY, 1)

    with shifted(21):
        assert till.deliver(sell, 7, retries=1).result == 7
    assert (shop.row.attempts, shop.row.token, shop.row.crashes, shop.row.message) == (2, 2, 0, None)
    assert len(shop.effects) == 1


def test_a_copy_never_comes_back_later_than_after_half_a_minute(till: Till, shop: Counter) -> None:
    @till.guarded(max_retries=3)
    def sell(self: Any, order: int) -> None:  # noqa: ARG001
        raise self.retry(countdown=3600)

    till.deliver(sell, 7)
    assert till.deliver(sell, 7, retries=1, expires="2020-01-01T00:00:00+00:00").is_ignored
    copy = till.sent[-1]
    assert 29 < copy.options["countdown"] < 31
    assert copy.options["expires"] is None
    assert shop.runs == 0


@each_copy
def test_a_key_that_a_leased_run_has_is_left_to_it(till: Till, shop: Counter, *, redelivered: bool) -> None:
    task = till.seller(shop)
    hold(task, 7)

    assert till.deliver(task, 7, redelivered=redelivered).is_ignored
    assert [sent.options["task_id"] for sent in till.sent] == ["A"]
    assert till.deliver(task, 7, id="B").result["reason"] == "in_progress"
    assert (shop.state, shop.row.token, shop.runs) == (State.RUNNING, 1, 0)


@pytest.mark.parametrize("id_", ["A", "B"])
def test_a_leased_run_that_is_over_is_taken_over(till: Till, shop: Counter, id_: str) -> None:
    task = till.seller(shop)
    hold(task, 7)
    with shifted(61):
        assert till.deliver(task, 7, id=id_).result == {"order": 7}
    row = shop.row
    assert (row.token, row.attempts, row.crashes, row.task_id) == (2, 2, 1, "A")
    assert row.runner_task_id == (None if id_ == "A" else "B")
    assert (shop.starts[0]["died"], shop.starts[0]["attempt"]) == (True, 2)


def test_a_reserved_call_that_comes_as_a_redelivered_copy_is_run_once(till: Till, shop: Counter) -> None:
    task = till.seller(shop)
    task.submit((7,), task_id="A")
    headers = till.sent.pop().options["headers"]

    ends = [till.deliver(task, 7, redelivered=True, **headers) for _ in range(2)]
    assert [end.result for end in ends] == [{"order": 7}] * 2
    assert (shop.runs, shop.row.crashes, shop.row.attempts) == (1, 0, 2)


def test_a_start_that_ends_takes_its_count_back(till: Till, shop: Counter) -> None:
    task = till.seller(shop)
    assert till.deliver(task, 7, redelivered=True).result == {"order": 7}
    assert (shop.state, shop.row.crashes) == (State.SUCCEEDED, 0)


@each_copy
def test_a_key_whose_starts_never_ended_is_not_started_again(
    till: Till, shop: Counter, *, redelivered: bool
) -> None:
    task = till.seller(shop, max_crashes=3)
    hold(task, 7)
    shop.put(state=State.RETRY, crashes=3, message="{}")
    with shifted(61):
        end = till.deliver(task, 7, redelivered=redelivered)
    assert isinstance(end.error, PoisonTask)
    assert (shop.state, shop.row.crashes, shop.runs, shop.effects) == (State.FAILED, 3, 0, [])


def test_a_start_after_a_known_death_is_one_attempt_more(till: Till, shop: Counter) -> None:
    task = till.seller(shop)
    call = Call(task.idempotency_identity((7,)), task.name, "A", None)
    assert orphans.record_crash(task, call, CRASH) is Recorded.DONE
    till.deliver(task, 7, redelivered=True)
    assert shop.starts[0]["attempt"] == shop.row.attempts == 2
