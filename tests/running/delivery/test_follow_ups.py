"""A call that arrives while its key's body runs is run after it, once, and never beside it."""

from __future__ import annotations

from typing import Any

import pytest
from celery.exceptions import Ignore, Reject
from django.db import OperationalError, connections

from django_idempotent_tasks import ManualReview, PermanentError, RecordedError, TransientError
from django_idempotent_tasks.ledger import following
from django_idempotent_tasks.ledger.stores import get_store
from django_idempotent_tasks.ledger.stores.clock import shifted
from django_idempotent_tasks.models import FailedJob, FollowUp
from django_idempotent_tasks.signals import follow_up_accepted
from django_idempotent_tasks.states import State
from django_idempotent_tasks.sweeper.sweep import sweep_once
from tests.running.delivery.heard import told
from tests.support.deliveries import ALIASES, APPS
from tests.support.till import End, Till

pytestmark = pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS)


class Visits:
    """A task that notes its runs; what happens inside the first one is the test's to say."""

    def __init__(self, till: Till, alias: str, **options: Any) -> None:
        self.till = till
        self.alias = alias
        self.notes: list[str] = []
        self.inside: Any = lambda: None
        self.ends: dict[str, End] = {}
        defaults: dict[str, Any] = {"on_duplicate": "follow_up", "mode": "leased"}

        @till.guarded(**{**defaults, **options})
        def visit(task: Any, order: int, note: str = "") -> str:  # noqa: ARG001
            self.notes.append(note)
            if len(self.notes) == 1:
                self.inside()
            return note

        self.task = visit

    def arrives(self, id: str, note: str = "", **message: Any) -> End:  # noqa: A002
        """Deliver a call of the one key."""
        self.ends[id] = self.till.deliver(self.task, 7, note, id=id, **message)
        return self.ends[id]

    def send_on(self) -> list[End]:
        """Deliver what was sent, until nothing more is."""
        ends = []
        while self.till.sent:
            ends.append(self.till.deliver_sent(self.task))
        return ends

    @property
    def waiting(self) -> FollowUp | None:
        """The follow-up that waits."""
        return FollowUp.objects.using(self.alias).first()


@pytest.fixture
def visits(till: Till, alias: str) -> Visits:
    return Visits(till, alias)


def test_a_call_that_arrives_while_the_body_runs_is_run_after_it(visits: Visits) -> None:
    visits.inside = lambda: visits.arrives("B", "later")
    assert visits.arrives("A", "first").result == "first"
    assert visits.ends["B"].is_ignored
    assert visits.notes == ["first"]
    assert [end.result for end in visits.send_on()] == ["later"]
    assert (visits.notes, visits.waiting) == (["first", "later"], None)


def test_of_many_calls_one_is_run_with_the_newest_arguments(visits: Visits) -> None:
    def inside() -> None:
        for number in range(5):
            visits.arrives(f"B{number}", f"change {number}")

    visits.inside = inside
    visits.arrives("A")
    assert visits.ends["B4"].result == {
        "status": "skipped",
        "reason": "in_progress",
        "key": "order=7",
        "task_id": "B0",
    }
    assert len(visits.send_on()) == 1
    assert visits.notes == ["", "change 4"]


def test_of_many_calls_one_is_run_with_the_first_ones_arguments_where_that_is_asked(
    till: Till, alias: str
) -> None:
    visits = Visits(till, alias, keep="first")

    def inside() -> None:
        for number in range(3):
            visits.arrives(f"B{number}", f"change {number}")

    visits.inside = inside
    visits.arrives("A")
    visits.send_on()
    assert visits.notes == ["", "change 0"]


def test_a_call_that_arrives_during_the_follow_up_is_run_as_well(visits: Visits) -> None:
    visits.inside = lambda: visits.arrives("B", "second")
    visits.arrives("A", "first")
    visits.notes.clear()  # so that the next run is a first one
    visits.inside = lambda: visits.arrives("C", "third")
    visits.send_on()
    assert visits.notes == ["second", "third"]


def test_each_call_is_answered_with_its_own_result(visits: Visits) -> None:
    visits.inside = lambda: visits.arrives("B", "later")
    visits.arrives("A", "first")
    visits.send_on()
    for task_id, note in (("A", "first"), ("B", "later")):
        assert visits.arrives(task_id, note, redelivered=True).result == note
    assert visits.notes == ["first", "later"]


@pytest.mark.parametrize("error", [PermanentError("no"), ManualReview("who knows"), Ignore(), Reject("no")])
def test_however_the_run_ends_the_follow_up_is_run(visits: Visits, error: Exception) -> None:
    def inside() -> None:
        visits.arrives("B", "later")
        raise error

    visits.inside = inside
    visits.arrives("A", "first")
    assert [end.result for end in visits.send_on()] == ["later"]
    assert visits.notes == ["first", "later"]
    failed = FailedJob.objects.using(visits.alias).filter(task_id="A")
    assert failed.exists() is not isinstance(error, Ignore)


def test_a_failed_run_that_was_followed_is_answered_with_its_error(visits: Visits) -> None:
    def inside() -> None:
        visits.arrives("B", "later")
        raise PermanentError("no")

    visits.inside = inside
    visits.arrives("A", "first")
    visits.send_on()
    assert isinstance(visits.arrives("A", "first", redelivered=True).error, RecordedError)
    assert visits.notes == ["first", "later"]


def test_the_follow_up_waits_for_the_retry_of_the_run_before(till: Till, alias: str) -> None:
    visits = Visits(till, alias, max_retries=3)

    def inside() -> None:
        visits.arrives("B", "later")
        raise TransientError("again")

    visits.inside = inside
    visits.arrives("A", "first")
    assert visits.waiting is not None
    assert [sent.options["task_id"] for sent in till.sent] == ["A"]
    with shifted(30):
        visits.send_on()
    assert visits.notes == ["first", "first", "later"]


def test_a_call_that_waits_or_retries_is_not_followed(till: Till, alias: str) -> None:
    visits = Visits(till, alias, max_retries=3)

    def inside() -> None:
        raise TransientError("again")

    visits.inside = inside
    visits.arrives("A")
    assert visits.arrives("B", "later").result["task_id"] == "A"
    assert visits.waiting is None


def test_a_call_that_arrives_after_a_cancel_waits_for_the_end_of_the_body(visits: Visits) -> None:
    def inside() -> None:
        store = get_store(visits.alias)
        assert store.cancel(visits.task.idempotency_identity((7,), {}).digest, window=900)
        assert visits.arrives("B", "later").is_ignored

    visits.inside = inside
    visits.arrives("A", "first")
    assert visits.notes == ["first"]
    visits.send_on()
    assert visits.notes == ["first", "later"]


def test_a_second_call_after_a_cancel_does_not_run_beside_the_body_either(visits: Visits) -> None:
    def inside() -> None:
        store = get_store(visits.alias)
        assert store.cancel(visits.task.idempotency_identity((7,), {}).digest, window=900)
        assert visits.arrives("B", "later").is_ignored
        assert visits.arrives("C", "last").result["task_id"] == "B"

    visits.inside = inside
    visits.arrives("A", "first")
    visits.send_on()
    assert (visits.notes, visits.waiting) == (["first", "last"], None)


def test_a_copy_of_the_follow_ups_message_changes_nothing(visits: Visits) -> None:
    def inside() -> None:
        visits.arrives("B", "later")
        assert visits.arrives("B", "later", redelivered=True).result["task_id"] == "B"

    visits.inside = inside
    visits.arrives("A", "first")
    visits.send_on()
    assert visits.notes == ["first", "later"]


def test_a_call_of_a_canvas_comes_back_until_it_can_be_answered(visits: Visits) -> None:
    link = {"task": "elsewhere", "args": [], "kwargs": {}, "options": {"task_id": "L"}, "immutable": False}
    visits.inside = lambda: visits.arrives("B", "later", callbacks=[link])
    visits.arrives("A", "first")
    assert visits.waiting is None
    assert [sent.options["task_id"] for sent in visits.till.sent] == ["B"]


def test_a_follow_up_that_the_broker_does_not_take_is_sent_by_the_sweeper(visits: Visits) -> None:
    def inside() -> None:
        visits.arrives("B", "later")
        visits.till.broker_error = OSError("away")

    visits.inside = inside
    visits.arrives("A", "first")
    assert not visits.till.sent
    visits.till.broker_error = None
    sweep_once(visits.till, get_store(visits.alias))
    visits.send_on()
    assert visits.notes == ["first", "later"]


def test_a_follow_up_that_the_run_could_not_promote_is_promoted_by_the_sweeper(
    visits: Visits, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*_: Any, **__: Any) -> None:
        raise OperationalError("gone")

    visits.inside = lambda: visits.arrives("B", "later")
    with monkeypatch.context() as broken:
        broken.setattr(following, "promote", gone)
        assert visits.arrives("A", "first").result == "first"
    assert not visits.till.sent
    sweep_once(visits.till, get_store(visits.alias))
    visits.send_on()
    assert visits.notes == ["first", "later"]


def test_a_signal_says_that_a_call_follows(visits: Visits) -> None:
    heard: list[Any] = []

    def note(sender: Any, call: Any, holder: Any, **_: Any) -> None:
        heard.append((sender, call.task_id, holder))

    follow_up_accepted.connect(note)
    try:
        visits.inside = lambda: (visits.arrives("B"), visits.arrives("C"))
        visits.arrives("A")
    finally:
        follow_up_accepted.disconnect(note)
    assert heard == [(visits.task.name, "B", "A")]


def test_the_run_of_a_task_with_follow_ups_costs_one_statement_more_and_other_runs_none(
    till: Till, alias: str
) -> None:
    if connections[alias].vendor != "postgresql":
        pytest.skip("PostgreSQL tells what it hears")
    followed, other = Visits(till, alias), Visits(till, alias, on_duplicate="skip")
    without = told(lambda: other.arrives("A")).words
    assert told(lambda: followed.arrives("A")).words == [*without, "SELECT"]


def test_the_key_waits_for_its_follow_up_in_the_next_generation(visits: Visits) -> None:
    visits.inside = lambda: visits.arrives("B", "later")
    visits.arrives("A", "first")
    row = get_store(visits.alias).read(visits.task.idempotency_identity((7,), {}).digest, task_id="B")
    assert row is not None
    assert (row.state, row.generation, row.task_id) == (State.PENDING, 2, "B")
