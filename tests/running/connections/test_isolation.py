"""A claim over a connection of a higher isolation is begun again, and nothing runs twice."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from celery.result import allow_join_result
from django.db import connections

from django_idempotent_tasks.states import State
from tests.running.connections.levels import claims, each_level, met
from tests.sample.models import Effect
from tests.support.deliveries import ALIASES, APPS
from tests.support.ledger.session import Session
from tests.support.till import Counter, End, Till
from tests.support.waiting import PATIENCE

pytestmark = [
    pytest.mark.postgresql,
    pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS),
]


@each_level
def test_duplicates_and_copies_are_answered(till: Till, isolated: Counter) -> None:
    task = till.seller(isolated)
    assert till.deliver(task, 7).result == {"order": 7}
    assert till.deliver(task, 7).result == {"order": 7}
    assert till.deliver(task, 7, redelivered=True).result == {"order": 7}
    assert till.deliver(task, 7, id="B").result["reason"] == "already_completed"
    assert isolated.runs == 1


@each_level
def test_a_key_that_another_transaction_has_is_not_waited_for(
    till: Till, isolated: Counter, rival: Session
) -> None:
    task = till.seller(isolated, on_duplicate="replay")
    claims(rival, task, 7)
    assert till.deliver(task, 7, id="B").is_ignored
    (copy,) = till.sent
    assert (copy.options["task_id"], copy.row, isolated.runs) == ("B", None, 0)

    rival.commit()
    assert till.deliver_sent(task).result is None  # what the rival came to
    assert isolated.runs == 0


@each_level
def test_a_key_whose_other_transaction_rolls_back_is_claimed_by_the_copy(
    till: Till, isolated: Counter, rival: Session
) -> None:
    task = till.seller(isolated)
    claims(rival, task, 7)
    till.deliver(task, 7, id="B")
    rival.rollback()
    assert till.deliver_sent(task).result == {"order": 7}
    assert (isolated.state, isolated.row.task_id, isolated.runs) == (State.SUCCEEDED, "B", 1)


@each_level
@pytest.mark.parametrize("word", ["INSERT", "WITH"])
def test_a_key_that_is_committed_in_the_middle_of_a_claim_is_seen(
    till: Till, isolated: Counter, rival: Session, word: str
) -> None:
    task = till.seller(isolated)
    claims(rival, task, 7)
    with met(rival, word):
        end = till.deliver(task, 7, id="B")
    assert end.result["reason"] == "already_completed"
    assert (isolated.runs, isolated.row.task_id, isolated.effects) == (0, "R", [])


@each_level
def test_of_simultaneous_deliveries_of_one_key_one_is_run(till: Till, isolated: Counter) -> None:
    task = till.seller(isolated)
    together = Barrier(6)

    def deliver(number: int) -> End:
        try:
            Effect.objects.using("default").count()  # connected before it starts
            together.wait(PATIENCE)
            return till.deliver(task, 7, id=f"B{number}")
        finally:
            connections["default"].close()

    with allow_join_result(), ThreadPoolExecutor(6) as threads:  # threads that send leave Celery's mark set
        ends = list(threads.map(deliver, range(6)))
    results = [end.result for end in ends if isinstance(end.result, dict)]
    assert results.count({"order": 7}) == isolated.runs == len(isolated.effects) == 1
    for end in ends:
        assert end.is_ignored or end.result == {"order": 7} or end.result["reason"] == "already_completed", (
            end
        )
