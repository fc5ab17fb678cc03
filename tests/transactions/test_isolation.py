"""Connections of a higher isolation: a claim is begun again or fails with the reason, nothing runs twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from threading import Barrier
from typing import Any

import pytest
from celery.result import allow_join_result
from django.db import OperationalError, connections
from psycopg import IsolationLevel

from django_idempotent_tasks.outcomes import Call
from django_idempotent_tasks.states import State
from tests.concurrency.session import Session
from tests.proj.models import Effect
from tests.support.waiting import PATIENCE
from tests.transactions.conftest import ALIASES, APPS
from tests.transactions.till import Counter, End, Till

pytestmark = [
    pytest.mark.postgresql,
    pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS),
]

DAY = 24 * 3600
LEVELS = [IsolationLevel.READ_COMMITTED, IsolationLevel.REPEATABLE_READ, IsolationLevel.SERIALIZABLE]
HIGHER = LEVELS[1:]


@pytest.fixture
def isolated(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, postgresql: Counter
) -> Iterator[Counter]:
    """PostgreSQL by connections of this isolation, as ``OPTIONS["isolation_level"]`` makes them."""
    options = {
        **connections.settings["default"].get("OPTIONS", {}),
        "isolation_level": request.param,
        "options": "-c lock_timeout=2000",  # a wait that must not be is a failure, and not for ever
    }
    monkeypatch.setitem(connections.settings["default"], "OPTIONS", options)
    connections["default"].close()
    yield postgresql
    connections["default"].close()


@pytest.fixture
def rival(transactional_db: None) -> Iterator[Session]:  # noqa: ARG001  outlives the session
    session = Session("default")
    yield session
    session.close()


each_level = pytest.mark.parametrize("isolated", LEVELS, indirect=True, ids=lambda level: level.name)
each_higher = pytest.mark.parametrize("isolated", HIGHER, indirect=True, ids=lambda level: level.name)


@contextmanager
def before_first(word: str, act: Callable[[], object]) -> Iterator[list[str]]:
    """Do something just before the first statement that begins with this word; the words of all of them."""
    words: list[str] = []

    def look(execute: Any, sql: str, params: Any, many: Any, context: Any) -> Any:
        words.append(sql.split(maxsplit=1)[0].upper())
        if words[-1] == word and words.count(word) == 1:
            act()
        return execute(sql, params, many, context)

    with connections["default"].execute_wrapper(look):
        yield words


def claims(rival: Session, task: Any, order: int, *, id: str = "R") -> None:  # noqa: A002
    """Let another transaction claim the key atomically, and leave it open."""
    call = Call(task.idempotency_identity((order,)), task.name, id, None)
    rival.begin()
    grant = rival.do(lambda store: store.atomic_new(call, owner="w:2:r", retention=DAY, window=DAY))
    assert grant is not None


def met(rival: Session, word: str) -> AbstractContextManager[list[str]]:
    """The rival commits just before such a statement of ours."""
    return before_first(word, rival.commit)


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
@pytest.mark.parametrize("word", ["INSERT", "SELECT"])
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


@each_higher
def test_a_conflict_in_the_body_fails_with_the_databases_reason(
    till: Till, isolated: Counter, rival: Session
) -> None:
    isolated.write("stock")

    @till.guarded()
    def sell(self: Any, order: int) -> None:  # noqa: ARG001
        isolated.sell(self)
        if isolated.runs == 1:
            rival.sql("UPDATE proj_effect SET note = 'theirs' WHERE key = 'stock'")
        Effect.objects.filter(key="stock").update(note="ours")

    error = till.deliver(sell, 7).error
    assert isinstance(error, OperationalError)
    assert getattr(error.__cause__, "sqlstate", "") == "40001"
    assert (isolated.state, isolated.effects) == (State.FAILED, ["theirs"])
    assert till.deliver(sell, 7, id="B").error is None
    assert isolated.effects == ["ours", ""]


@pytest.mark.parametrize("isolated", [IsolationLevel.SERIALIZABLE], indirect=True, ids=["SERIALIZABLE"])
@pytest.mark.parametrize("redelivered", [False, True])
def test_a_conflict_in_the_commit_is_no_crash_and_the_message_comes_back(
    till: Till, isolated: Counter, rival: Session, *, redelivered: bool
) -> None:
    @till.guarded()
    def sell(self: Any, order: int) -> int:  # noqa: ARG001
        seen = Effect.objects.count()
        isolated.sell(self, "ours")
        if isolated.runs == 1:
            rival.begin("SERIALIZABLE")
            rival.sql("SELECT count(*) FROM proj_effect")
            rival.sql("INSERT INTO proj_effect (key, attempt, token, note) VALUES ('r', 1, 1, 'theirs')")
            rival.commit()
        return seen

    assert till.deliver(sell, 7, redelivered=redelivered).is_requeued
    assert isolated.effects == ["theirs"]
    assert till.deliver(sell, 7, redelivered=True).result == 1
    assert (isolated.state, isolated.row.crashes) == (State.SUCCEEDED, 0)
    assert isolated.effects == ["theirs", "ours"]
