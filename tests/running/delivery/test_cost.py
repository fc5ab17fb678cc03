"""What a guarded task says to PostgreSQL beyond what the same task unguarded says, counted by the server."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from celery.contrib.django.task import DjangoTask
from django.db import connections, transaction

from tests.running.delivery.heard import Heard, told
from tests.support.deliveries import ALIASES, APPS
from tests.support.till import Counter, Till

pytestmark = [
    pytest.mark.postgresql,
    pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS),
]


def plain(till: Till, shop: Counter) -> Any:
    """The same work by a task that nothing guards."""

    @till.task(base=DjangoTask, shared=False, name=till.new_name())
    def sell(order: int) -> None:  # noqa: ARG001
        with transaction.atomic():
            shop.write()

    return sell


def atomic(till: Till, shop: Counter, result: Any = None, **options: Any) -> Any:
    """The same work in an atomic task."""

    @till.guarded(**options)
    def sell(self: Any, order: int) -> Any:  # noqa: ARG001
        shop.write()
        return result

    return sell


def completing(till: Till, shop: Counter, result: Any = None) -> Any:
    """The same work inside ``.complete()`` of a leased task."""

    @till.guarded(mode="leased")
    def sell(self: Any, order: int) -> None:  # noqa: ARG001
        with self.idempotency.complete() as done:
            shop.write()
            done.result = result

    return sell


def returning(till: Till, shop: Counter, result: Any = None) -> Any:
    """The same work in a leased task that its return completes."""

    @till.guarded(mode="leased")
    def sell(self: Any, order: int) -> Any:  # noqa: ARG001
        with transaction.atomic():
            shop.write()
        return result

    return sell


def cost(till: Till, shop: Counter, task: Any, order: int = 7) -> tuple[int, int]:
    """The statements and commits of a first delivery, above those of the plain task."""
    base = told(lambda: till.deliver(plain(till, shop), order, id="P"))
    assert (base.words, base.commits) == (["INSERT"], 1)
    heard = told(lambda: till.deliver(task, order))
    return len(heard.words) - len(base.words), heard.commits - base.commits


@pytest.mark.parametrize(
    ("kind", "result", "expected"),
    [
        pytest.param(atomic, None, (1, 0), id="atomic"),
        pytest.param(atomic, {"ok": 1}, (2, 0), id="atomic with a result"),
        pytest.param(completing, None, (2, 1), id="leased, in complete()"),
        pytest.param(completing, {"ok": 1}, (2, 1), id="leased, in complete() with a result"),
        pytest.param(returning, None, (2, 2), id="leased, by return"),
        pytest.param(returning, {"ok": 1}, (2, 2), id="leased, by return of a result"),
    ],
)
def test_a_first_run_costs_so_many_statements_and_commits_more(
    till: Till, postgresql: Counter, kind: Any, result: Any, expected: tuple[int, int]
) -> None:
    assert cost(till, postgresql, kind(till, postgresql, result)) == expected
    assert len(postgresql.effects) == 2


def test_a_result_that_is_not_to_be_stored_costs_the_word_that_it_is_missing(
    till: Till, postgresql: Counter
) -> None:
    assert cost(till, postgresql, atomic(till, postgresql, {"ok": 1}, store_result=False)) == (2, 0)
    assert cost(till, postgresql, atomic(till, postgresql, None, store_result=False), order=8) == (1, 0)


def test_the_claim_is_the_first_statement_and_the_completion_the_last(
    till: Till, postgresql: Counter
) -> None:
    heard = told(lambda: till.deliver(atomic(till, postgresql, {"ok": 1}), 7))
    assert heard.words == ["INSERT", "INSERT", "UPDATE"]
    assert heard.statements[0] == "BEGIN"
    assert heard.statements[-1] == "COMMIT"
    assert "django_idempotent_tasks" in heard.statements[1]
    assert "sample_effect" in heard.statements[2]


def test_no_savepoint_is_ours(till: Till, postgresql: Counter) -> None:
    heard = told(lambda: till.deliver(atomic(till, postgresql, {"ok": 1}), 7))
    assert not [each for each in heard.statements if "SAVEPOINT" in each]


each_mode = pytest.mark.parametrize("kind", [atomic, completing], ids=["atomic", "leased"])


@each_mode
def test_a_duplicate_costs_two_statements_of_which_the_audit_row_waits_for_no_disk(
    till: Till, postgresql: Counter, kind: Any
) -> None:
    task = kind(till, postgresql, {"ok": 1})
    till.deliver(task, 7)
    heard = told(lambda: till.deliver(task, 7, id="B"))
    assert heard.words == ["INSERT", "WITH"]
    assert _audits(heard) == [True]


@each_mode
def test_a_duplicate_in_a_run_of_them_costs_one_statement_and_no_transaction(
    till: Till, postgresql: Counter, kind: Any
) -> None:
    task = after_duplicates(till, postgresql, kind)
    heard = told(lambda: till.deliver(task, 7, id="D"))
    assert [each.split()[0] for each in heard.statements] == ["WITH"]
    assert _audits(heard) == [True]
    assert postgresql.refusals == ["already_completed"] * 3


@each_mode
def test_a_new_key_behind_a_run_of_duplicates_costs_one_statement_more(
    till: Till, postgresql: Counter, kind: Any
) -> None:
    task = after_duplicates(till, postgresql, kind)
    assert told(lambda: till.deliver(task, 8, id="D")).words[:3] == ["WITH", "INSERT", "INSERT"]
    assert told(lambda: till.deliver(task, 9, id="E")).words[:2] == ["INSERT", "INSERT"]
    assert len(postgresql.effects) == 3


def after_duplicates(till: Till, shop: Counter, kind: Any) -> Any:
    """A task after so many duplicates that the next delivery is expected to be one."""
    task = kind(till, shop, {"ok": 1})
    for id_ in ("A", "B", "C"):
        till.deliver(task, 7, id=id_)
    return task


@each_mode
def test_only_a_first_run_waits_for_the_log(till: Till, postgresql: Counter, kind: Any) -> None:
    if connections["default"].pg_version < 180000:  # type: ignore[attr-defined]  # PostgreSQL's only
        pytest.skip("needs the statistics of PostgreSQL 18")
    task = kind(till, postgresql, {"ok": 1})
    # The server has one log: what a run waits for is at times written by another process, of another test.
    assert any(flushes(partial(till.deliver, task, order)) for order in range(7, 17))
    assert flushes(lambda: till.deliver(task, 7, id="B")) == 0


@each_mode
def test_a_duplicate_that_is_redelivered_costs_two_statements(
    till: Till, postgresql: Counter, kind: Any
) -> None:
    task = kind(till, postgresql, {"ok": 1})
    till.deliver(task, 7)
    heard = told(lambda: till.deliver(task, 7, id="B", redelivered=True))
    assert heard.words == ["SELECT", "INSERT"]
    assert _audits(heard) == [True]


@each_mode
def test_a_copy_of_a_completed_call_costs_what_it_takes_to_read_the_row(
    till: Till, postgresql: Counter, kind: Any
) -> None:
    task = kind(till, postgresql, {"ok": 1})
    till.deliver(task, 7)
    assert told(lambda: till.deliver(task, 7)).words == ["INSERT", "WITH"]
    assert told(lambda: till.deliver(task, 7, redelivered=True)).words == ["SELECT"]


def test_a_reserved_call_is_claimed_by_one_statement(till: Till, postgresql: Counter) -> None:
    task = atomic(till, postgresql)
    task.submit((7,), task_id="A")
    assert told(lambda: till.deliver_sent(task)).words == ["UPDATE", "INSERT"]


def test_a_retry_that_is_due_is_read_and_claimed(till: Till, postgresql: Counter) -> None:
    @till.guarded(max_retries=1)
    def sell(self: Any, order: int) -> None:  # noqa: ARG001
        postgresql.write()
        if not self.request.retries:
            raise self.retry(countdown=0)

    till.deliver(sell, 7)
    assert told(lambda: till.deliver_sent(sell)).words == ["SELECT", "UPDATE", "INSERT"]


def _audits(heard: Heard) -> list[bool]:
    """Of each audit row that was written, whether its commit was asynchronous."""
    rows = [each for each in heard.statements if "INSERT" in each and "duplicateattempt" in each]
    return ["synchronous_commit" in each for each in rows]


def flushes(work: Any) -> int:
    """How often this connection's server process wrote the log itself, as for a commit that waits for it."""

    def written() -> int:
        with connections["default"].cursor() as cursor:
            cursor.execute("SELECT pg_stat_force_next_flush()")
            cursor.execute(
                "SELECT coalesce(sum(writes), 0) FROM pg_stat_get_backend_io(pg_backend_pid())"
                " WHERE object = 'wal'"
            )
            return int(cursor.fetchone()[0])

    before = written()
    work()
    return written() - before
