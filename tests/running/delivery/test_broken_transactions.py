"""A body that breaks or ends its own transaction: never a success that is none."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from django.db import DatabaseError, IntegrityError, connections, transaction
from django.db.transaction import TransactionManagementError

from django_idempotent_tasks import PermanentError
from django_idempotent_tasks.states import Reason, State
from tests.sample.models import Effect
from tests.support.deliveries import ALIASES, APPS
from tests.support.failed import jobs
from tests.support.ledger.backends import cut
from tests.support.till import Counter, Till

pytestmark = pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS)

WRONG = "SELECT no_such_column FROM sample_effect"
WRITE = "INSERT INTO sample_effect (key, attempt, token, note) VALUES ('raw', 1, 1, 'raw')"


def sql(alias: str, *statements: str) -> None:
    """Say it to the database by Django's cursor."""
    with connections[alias].cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def swallow_in_the_orm(shop: Counter) -> None:
    """Catch what the ORM raises, outside a savepoint."""
    effect = Effect.objects.using(shop.alias).get()
    with suppress(IntegrityError):
        Effect.objects.using(shop.alias).create(id=effect.pk, key="twice", attempt=1, token=1)


def swallow_in_sql(shop: Counter) -> None:
    """Catch what a statement raises, outside a savepoint."""
    with suppress(DatabaseError):
        sql(shop.alias, WRONG)


def swallow_and_go_on(shop: Counter) -> None:
    """The same, and whatever follows as well."""
    for statement in (WRONG, WRITE):
        with suppress(DatabaseError):
            sql(shop.alias, statement)


def swallow_in_an_inner_block(shop: Counter) -> None:
    """Catch an error inside an ``atomic()`` block without a savepoint, which marks the outer one."""
    with suppress(DatabaseError), transaction.atomic(using=shop.alias, savepoint=False):
        sql(shop.alias, WRONG)


def mark(shop: Counter) -> None:
    """Have the transaction rolled back, without an error."""
    transaction.set_rollback(True, using=shop.alias)


def roll_back(shop: Counter) -> None:
    """Roll back behind Django's back."""
    sql(shop.alias, "ROLLBACK")


def roll_back_and_go_on(shop: Counter) -> None:
    """The same, and write something then."""
    sql(shop.alias, "ROLLBACK", WRITE)


def close(shop: Counter) -> None:
    """Close the connection in its transaction."""
    connections[shop.alias].close()


def nothing(shop: Counter) -> None:
    """Do nothing."""


def in_turn(*acts: Any) -> Any:
    """One of these in each run."""
    left = list(acts)

    def act(shop: Counter) -> None:
        left.pop(0)(shop)

    return act


def breaking(till: Till, shop: Counter, act: Any, *, returns: Any = None, **options: Any) -> Any:
    """A task that writes an effect, does something to its transaction, and returns as if nothing were."""

    @till.guarded(**options)
    def sell(self: Any, order: int) -> Any:  # noqa: ARG001
        shop.sell(self, "before")
        act(shop)
        return returns

    return sell


each_return = pytest.mark.parametrize("returns", [None, {"ok": 1}], ids=["no result", "a result"])


@each_return
@pytest.mark.parametrize(
    "act",
    [swallow_in_the_orm, swallow_in_an_inner_block, mark, roll_back, roll_back_and_go_on, close],
    ids=lambda act: act.__name__,
)
def test_a_body_whose_transaction_cannot_commit_has_failed(
    till: Till, shop: Counter, act: Any, returns: Any
) -> None:
    deliver = till.deliver_until_answered if act is close else till.deliver
    end = deliver(breaking(till, shop, act, returns=returns), 7)
    assert end.error is not None
    assert not end.is_requeued
    assert (shop.state, shop.row.attempts) == (State.FAILED, 1)
    assert "raw" not in shop.effects
    assert shop.effects == []
    assert not connections[shop.alias].in_atomic_block


@each_return
@pytest.mark.parametrize("act", [swallow_in_sql, swallow_and_go_on], ids=lambda act: act.__name__)
def test_a_statement_that_failed_and_was_forgotten_is_a_failure(
    till: Till, postgresql: Counter, act: Any, returns: Any
) -> None:
    end = till.deliver(breaking(till, postgresql, act, returns=returns), 7)
    assert isinstance(end.error, TransactionManagementError)
    assert "a statement failed in it" in str(end.error)
    assert (postgresql.state, postgresql.effects) == (State.FAILED, [])


@pytest.mark.parametrize("alias", ["sqlite"], indirect=True)
def test_sqlite_itself_goes_on_after_a_statement_that_failed(till: Till, shop: Counter) -> None:
    task = breaking(till, shop, swallow_and_go_on)
    assert till.deliver(task, 7).error is None
    assert (shop.state, shop.effects) == (State.SUCCEEDED, ["before", "raw"])


def test_a_failed_transaction_is_retried_where_the_task_says_so(till: Till, shop: Counter) -> None:
    task = breaking(till, shop, in_turn(mark, nothing), transient_errors=(TransactionManagementError,))
    assert till.deliver(task, 7).is_retried
    assert shop.effects == []
    assert till.deliver_sent(task).error is None
    assert (shop.state, shop.effects) == (State.SUCCEEDED, ["before"])


def test_a_savepoint_makes_an_error_harmless(till: Till, shop: Counter) -> None:
    def act(shop: Counter) -> None:
        with suppress(DatabaseError), transaction.atomic(using=shop.alias):
            shop.write(note="undone")
            sql(shop.alias, WRONG)
        with transaction.atomic(using=shop.alias):
            shop.write(note="nested")
        savepoint = transaction.savepoint(using=shop.alias)
        shop.write(note="rolled back to")
        transaction.savepoint_rollback(savepoint, using=shop.alias)

    assert till.deliver(breaking(till, shop, act), 7).error is None
    assert (shop.state, shop.effects) == (State.SUCCEEDED, ["before", "nested"])


def test_savepoints_of_a_body_that_fails_are_undone_with_it(till: Till, shop: Counter) -> None:
    def act(shop: Counter) -> None:
        with transaction.atomic(using=shop.alias):
            shop.write(note="nested")
        raise ValueError("after it")

    assert isinstance(till.deliver(breaking(till, shop, act), 7).error, ValueError)
    assert (shop.state, shop.effects) == (State.FAILED, [])


def test_a_durable_block_in_a_body_is_refused_by_django(till: Till, shop: Counter) -> None:
    def act(shop: Counter) -> None:
        with transaction.atomic(using=shop.alias, durable=True):
            shop.write(note="durable")

    end = till.deliver(breaking(till, shop, act), 7)
    assert isinstance(end.error, RuntimeError)
    assert "durable" in str(end.error)
    assert (shop.state, shop.effects) == (State.FAILED, [])


def test_a_body_may_not_change_autocommit(till: Till, shop: Counter) -> None:
    end = till.deliver(breaking(till, shop, lambda shop: connections[shop.alias].set_autocommit(True)), 7)
    assert isinstance(end.error, TransactionManagementError)
    assert (shop.state, shop.effects) == (State.FAILED, [])


def commit(shop: Counter) -> None:
    """Commit behind Django's back."""
    sql(shop.alias, "COMMIT")


def commit_and_go_on(shop: Counter) -> None:
    """The same, and write something then."""
    sql(shop.alias, "COMMIT", WRITE)


def commit_and_swallow(shop: Counter) -> None:
    """The same, whatever becomes of it."""
    with suppress(Exception):
        commit_and_go_on(shop)


def commit_by_the_driver(shop: Counter) -> None:
    """Commit by the driver's connection."""
    connections[shop.alias].connection.commit()
    with suppress(Exception):
        sql(shop.alias, WRITE)


def commit_and_fail(shop: Counter) -> None:
    """Commit, and raise something of one's own."""
    commit(shop)
    raise ValueError("after it")


@each_return
@pytest.mark.parametrize(
    "act",
    [commit, commit_and_go_on, commit_and_swallow, commit_by_the_driver, commit_and_fail],
    ids=lambda act: act.__name__,
)
def test_a_body_that_commits_by_itself_has_failed_for_good_and_writes_nothing_more(
    till: Till, shop: Counter, act: Any, returns: Any
) -> None:
    task = breaking(till, shop, act, returns=returns, autoretry_for=(Exception,), max_retries=3)
    end = till.deliver(task, 7)
    assert isinstance(end.error, PermanentError)
    assert "committed or rolled back by the body itself" in str(end.error)
    assert (shop.state, shop.row.reason) == (State.FAILED, Reason.PERMANENT)
    assert shop.effects == ["before"]
    assert not connections[shop.alias].in_atomic_block

    assert till.deliver(task, 7, id="B").result["reason"] == "failed"
    assert (shop.runs, till.sent) == (1, [])


def break_and_notice(shop: Counter) -> None:
    """Break it, and let the body see the error."""
    cut(shop.alias)
    shop.write(note="after")


def break_and_swallow(shop: Counter) -> None:
    """Break it, and let the body go on as if nothing were."""
    with suppress(DatabaseError):
        break_and_notice(shop)


@each_return
@pytest.mark.parametrize(
    "act",
    [lambda shop: cut(shop.alias), break_and_notice, break_and_swallow],
    ids=["unnoticed", "noticed", "swallowed"],
)
def test_a_connection_that_breaks_under_a_body_costs_one_attempt_and_no_effect(
    till: Till, postgresql: Counter, act: Any, returns: Any
) -> None:
    task = breaking(till, postgresql, in_turn(act, nothing), returns=returns)
    assert till.deliver(task, 7).is_requeued
    assert postgresql.state in {None, State.RETRY}
    assert postgresql.effects == []
    assert len(jobs(postgresql)) == (postgresql.state is State.RETRY), "what is counted is recorded"

    assert till.deliver(task, 7, redelivered=True).result == returns
    assert (postgresql.state, postgresql.effects, till.sent) == (State.SUCCEEDED, ["before"], [])
