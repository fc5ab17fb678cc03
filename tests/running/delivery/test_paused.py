"""A call of a paused task that reaches a worker: it waits in the ledger, and nothing of it is used up."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from django_idempotent_tasks.ledger import pauses as known
from django_idempotent_tasks.ledger.stores import get_store
from django_idempotent_tasks.ledger.stores.clock import shifted
from django_idempotent_tasks.models import FailedJob, Pause
from django_idempotent_tasks.operations import pauses
from django_idempotent_tasks.states import State
from django_idempotent_tasks.sweeper.pauses import drain
from tests.running.connections.acts import Act, by_hand
from tests.support.deliveries import ALIASES, APPS
from tests.support.till import Counter, Till

pytestmark = pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS)

MODES = pytest.mark.parametrize("mode", ["leased", "atomic"])


@pytest.fixture(autouse=True)
def _told() -> Iterator[None]:
    """Let each delivery read the pauses, as if a parent had told of one."""
    fresh, known.FRESH = known.FRESH, 0.0
    known.share()
    assert known._known.flag is not None
    known._known.flag[0] = 1
    yield
    known.FRESH, known._known.flag, known._known.pauses = fresh, None, []


def paused(task: Any, **options: Any) -> Pause:
    """Pause a task, as a person does."""
    given = {"by": "ann", "reason": "the bank is down", **options}
    return pauses.pause(get_store(), task.name, **given)


@pytest.mark.parametrize(
    "options",
    [{"mode": "leased"}, {"mode": "atomic"}, {"mode": "leased", "at_most_once": True}],
    ids=["leased", "atomic", "at_most_once"],
)
def test_a_first_delivery_waits_in_the_ledger_and_runs_once_after_the_end(
    till: Till, shop: Counter, options: dict[str, Any]
) -> None:
    task = till.seller(shop, **options)
    row = paused(task)
    assert till.deliver(task, 7, id="A").is_ignored
    assert till.deliver(task, 7, id="A", redelivered=True).is_ignored
    assert (shop.runs, shop.state, shop.row.attempts, shop.row.crashes) == (0, State.PENDING, 0, 0)
    assert shop.row.message is not None
    assert till.deliver(task, 7, id="B").is_ignored is False
    assert shop.runs == 0  # another call of the key is a duplicate, as ever
    assert pauses.resume(get_store(), row, by="ann")
    assert drain(get_store()) == 1
    assert till.deliver(task, 7, id="A").result == {"order": 7}
    assert (shop.runs, shop.state) == (1, State.SUCCEEDED)
    assert not FailedJob.objects.using(shop.alias).exists()


@MODES
def test_a_retry_that_comes_due_waits_and_its_number_stays(till: Till, shop: Counter, mode: str) -> None:
    @till.guarded(mode=mode, max_retries=3)
    def pay(self: Any, order: int) -> str:  # noqa: ARG001
        shop.starts.append({})
        if shop.runs == 1:
            raise self.retry(countdown=0)
        return "paid"

    till.deliver(pay, 7)
    row = paused(pay)
    sent = till.sent[0]
    assert till.deliver_sent(pay).is_ignored
    assert (shop.runs, shop.state) == (1, State.RETRY)
    assert shop.row.due_at == row.held_at
    pauses.resume(get_store(), row, by="ann")
    assert drain(get_store()) == 1
    till.sent.append(sent)
    assert till.deliver_sent(pay).result == "paid"


def test_what_runs_ends_and_what_has_ended_is_answered_as_ever(till: Till, shop: Counter) -> None:
    @till.guarded(mode="leased")
    def pay(self: Any, order: int) -> str:  # noqa: ARG001
        shop.starts.append({})
        paused(pay)
        return "paid"

    assert till.deliver(pay, 7).result == "paid"
    assert till.deliver(pay, 7, redelivered=True).result == "paid"
    assert (shop.runs, shop.state) == (1, State.SUCCEEDED)


def test_a_copy_of_a_run_whose_owner_died_takes_nothing_over_in_the_pause(till: Till, shop: Counter) -> None:
    task = till.seller(shop, mode="leased", lease=30)
    till.deliver(task, 7)
    shop.put(state=State.RUNNING, finished_at=None, owner="w:1:gone", message="{}")
    paused(task)
    with shifted(100):
        shop.put(open_at=shop.row.created_at)
        assert till.deliver(task, 7, redelivered=True).is_ignored
    assert (shop.runs, shop.state) == (1, State.RUNNING)
    assert len(till.sent) == 1  # a copy that comes back, until the sweeper has freed the key


@pytest.mark.parametrize("options", [{"sensitive": ("note",)}])
def test_a_call_that_may_not_be_stored_comes_back_to_the_broker_and_not_to_the_ledger(
    till: Till, shop: Counter, options: dict[str, Any]
) -> None:
    task = till.seller(shop, mode="leased", **options)
    paused(task)
    assert till.deliver(task, 7).is_ignored
    assert (shop.runs, shop.state, len(till.sent)) == (0, None, 1)
    assert 25 < till.sent[0].options["countdown"] < 35


def test_a_pause_of_one_scope_holds_its_calls_only(till: Till, shop: Counter) -> None:
    task = till.seller(shop, mode="leased", scope="note")
    paused(task, scope="acme")
    assert till.deliver(task, 7, "acme", id="A").is_ignored
    assert till.deliver(task, 7, "globex", id="B").result == {"order": 7}
    assert shop.runs == 1


def test_a_forgotten_pause_ends_by_itself(till: Till, shop: Counter) -> None:
    task = till.seller(shop, mode="leased")
    paused(task, lasts=timedelta(minutes=30))
    assert till.deliver(task, 7).is_ignored
    with shifted(60 * 31):
        assert drain(get_store()) == 1
        assert till.deliver(task, 7).result == {"order": 7}


@MODES
@by_hand
def test_what_waits_is_never_written_into_a_transaction_that_was_left_open_before(
    till: Till, shop: Counter, mode: str, act: Act
) -> None:
    task = till.seller(shop, mode=mode)
    row = paused(task)
    act(shop.alias)
    shop.write(note="left")
    assert till.deliver(task, 7).is_ignored
    connections[shop.alias].close()
    assert (shop.state, shop.effects, shop.row.due_at) == (State.PENDING, [], row.held_at)


@MODES
def test_a_reserved_call_that_comes_without_its_identity_waits_under_its_own_key(
    till: Till, shop: Counter, mode: str
) -> None:
    task = till.seller(shop, mode=mode)
    task.submit((7,), task_id="A", idempotency_key="evt-1")
    row = paused(task)
    assert till.deliver(task, 7).is_ignored
    assert (shop.runs, shop.row.key_text, shop.row.due_at) == (0, "evt-1", row.held_at)


def test_a_process_that_does_not_know_of_the_end_yet_runs_the_call(till: Till, shop: Counter) -> None:
    task = till.seller(shop, mode="leased")
    row = paused(task)
    known.read(get_store())
    known.FRESH = 60.0
    pauses.resume(get_store(), row, by="ann")
    known._known.read_at += 1000.0
    assert till.deliver(task, 7).result == {"order": 7}


def test_a_worker_whose_parent_knows_of_no_pause_reads_nothing(till: Till, shop: Counter) -> None:
    task = till.seller(shop, mode="leased")
    known.read(get_store())
    with CaptureQueriesContext(connections[shop.alias]) as captured:
        assert till.deliver(task, 7).result == {"order": 7}
    assert not [query for query in captured.captured_queries if "_pause" in query["sql"]]
    paused(task)
    known.read(get_store())
    assert till.deliver(task, 8).is_ignored


def test_a_follow_up_that_comes_up_in_the_pause_waits_and_runs_after_it(till: Till, shop: Counter) -> None:
    rows: list[Pause] = []

    @till.guarded(mode="leased", on_duplicate="follow_up")
    def refresh(self: Any, order: int) -> str:
        shop.starts.append({})
        if self.request.id == "A":
            rows.append(paused(refresh))
            assert till.deliver(refresh, order, id="B").is_ignored
        return str(self.request.id)

    assert till.deliver(refresh, 7, id="A").result == "A"
    assert (shop.row.task_id, shop.state) == ("B", State.PENDING)
    assert till.deliver_sent(refresh).is_ignored
    assert (shop.runs, shop.row.due_at) == (1, rows[0].held_at)
    pauses.resume(get_store(), rows[0], by="ann")
    assert drain(get_store()) == 1
    assert till.deliver(refresh, 7, id="B").result == "B"
