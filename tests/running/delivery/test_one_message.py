"""The first or last statement of a transaction of ours goes to PostgreSQL with its BEGIN or its COMMIT."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from celery.exceptions import SoftTimeLimitExceeded
from django.db import IntegrityError, connections, transaction
from django.db.transaction import TransactionManagementError

from django_idempotent_tasks import LeaseLost
from django_idempotent_tasks.ledger import stores
from django_idempotent_tasks.states import State
from tests.running.delivery.heard import told
from tests.sample.models import Effect
from tests.support.deliveries import ALIASES, APPS
from tests.support.glitch import Glitch, files_of, raising
from tests.support.till import Counter, Till

if TYPE_CHECKING:
    from pytest_django import Settings

pytestmark = [
    pytest.mark.postgresql,
    pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS),
]


STORES = Path(stores.__file__).parent


class Nothing(Counter):
    """A shop in which nothing is sold."""

    def sell(self, task: Any, note: str = "") -> None:
        """Write nothing."""


def completing(till: Till, shop: Counter, act: Any = None) -> Any:
    """A task that writes inside ``.complete()``."""

    @till.guarded(mode="leased")
    def sell(self: Any, order: int) -> None:  # noqa: ARG001
        with self.idempotency.complete():
            shop.sell(self)
            (act or bool)()

    return sell


def stepping(till: Till, shop: Counter, act: Any = None) -> Any:
    """A task that writes in a step."""

    def write(task: Any) -> None:
        shop.sell(task)
        (act or bool)()

    @till.guarded(mode="leased")
    def sell(self: Any, order: int) -> None:  # noqa: ARG001
        self.idempotency.step("write", write, self)

    return sell


each_part = pytest.mark.parametrize("part", [completing, stepping])


@contextmanager
def aside(alias: str) -> Iterator[Any]:
    """A cursor on another connection."""
    other = connections[alias].copy()
    try:
        with other.cursor() as cursor:
            yield cursor
    finally:
        other.close()


@each_part
def test_what_fences_a_block_travels_with_its_commit(till: Till, postgresql: Counter, part: Any) -> None:
    heard = told(lambda: till.deliver(part(till, postgresql), 7))
    carried = [message for message in heard.messages if message.endswith("; COMMIT")]
    assert len(carried) == 1
    assert len([each for each in heard.statements if each == "COMMIT"]) == 1
    assert (postgresql.state, len(postgresql.effects)) == (State.SUCCEEDED, 1)


@each_part
def test_an_attempt_that_loses_its_key_in_the_block_commits_nothing_and_runs_no_hook(
    till: Till, postgresql: Counter, part: Any
) -> None:
    hooks: list[int] = []

    def lose() -> None:
        transaction.on_commit(lambda: hooks.append(1), using=postgresql.alias)
        with aside(postgresql.alias) as cursor:
            cursor.execute(
                "UPDATE django_idempotent_tasks_idempotencykey SET token = token + 1, owner = 'another'"
            )

    till.deliver(part(till, postgresql, lose), 7)
    assert (postgresql.effects, hooks) == ([], [])
    assert postgresql.row.owner == "another"
    assert "_commit" not in vars(connections[postgresql.alias])


@each_part
def test_a_constraint_that_is_looked_at_in_the_commit_is_the_body_s_error(
    till: Till, postgresql: Counter, part: Any
) -> None:
    hooks: list[int] = []

    def break_it() -> None:
        transaction.on_commit(lambda: hooks.append(1), using=postgresql.alias)
        with connections[postgresql.alias].cursor() as cursor:
            cursor.execute("CREATE TEMP TABLE twice (id integer UNIQUE DEFERRABLE INITIALLY DEFERRED)")
            cursor.execute("INSERT INTO twice VALUES (1), (1)")

    assert isinstance(till.deliver(part(till, postgresql, break_it), 7).error, IntegrityError)
    assert (postgresql.state, postgresql.effects, hooks) == (State.FAILED, [], [])


@each_part
def test_a_block_whose_writes_django_would_roll_back_does_not_count_as_done(
    till: Till, postgresql: Counter, part: Any
) -> None:
    def fail_and_go_on() -> None:
        first = Effect.objects.using(postgresql.alias).get()
        with suppress(IntegrityError):
            Effect(pk=first.pk, key="twice", attempt=1, token=1).save(
                using=postgresql.alias, force_insert=True
            )

    end = till.deliver(part(till, postgresql, fail_and_go_on), 7)
    assert isinstance(end.error, TransactionManagementError)
    assert (postgresql.state, postgresql.effects) == (State.FAILED, [])


@each_part
def test_a_key_that_was_lost_and_made_anew_with_the_same_token_is_another_attempt_s(
    till: Till, postgresql: Counter, part: Any
) -> None:
    def lose() -> None:
        with aside(postgresql.alias) as cursor:
            cursor.execute("UPDATE django_idempotent_tasks_idempotencykey SET owner = 'another'")

    errors: list[type[BaseException]] = []
    sell = part(till, postgresql, lose)
    run = sell.run

    def watched(*given: Any) -> None:
        try:
            run(*given)
        except BaseException as error:
            errors.append(type(error))
            raise

    sell.run = watched
    till.deliver(sell, 7)
    assert errors == [LeaseLost]
    assert postgresql.effects == []


@pytest.mark.parametrize("part", [Till.seller, completing, stepping])
def test_a_signal_where_a_message_is_put_together_leaves_nothing_on_the_connection(
    till: Till, postgresql: Counter, part: Any, settings: Settings
) -> None:
    settings.IDEMPOTENT_TASKS = {"PREPARED_STATEMENTS": False}  # a new connection would have other lines
    connection: Any = connections[postgresql.alias]
    glitch = Glitch(files_of(*(STORES / f"{name}.py" for name in ("begun", "carried", "connection"))))
    sell = part(till, postgresql)
    faults = []
    for order, spot in enumerate(glitch.spots(lambda: till.deliver(sell, 0)), start=1):
        with suppress(SoftTimeLimitExceeded):
            glitch.strike(spot, raising(SoftTimeLimitExceeded), lambda: till.deliver(sell, order))  # noqa: B023
        left = (vars(connection).pop("_commit", None), [*connection.execute_wrappers])
        connection.execute_wrappers.clear()
        if left != (None, []) or connection.connection.autocommit is not True:
            faults.append(f"{spot}: {left}")
    assert faults == []


def test_a_hook_that_divides_by_zero_after_the_commit_takes_no_key_away(
    till: Till, postgresql: Counter
) -> None:
    after: list[int] = []

    def divide() -> None:
        with connections[postgresql.alias].cursor() as cursor:
            cursor.execute("SELECT 1 / 0")

    @till.guarded(mode="leased")
    def sell(self: Any, order: int) -> None:
        with self.idempotency.complete():
            postgresql.sell(self)
            transaction.on_commit(divide, using=postgresql.alias)
        after.append(order)

    till.deliver(sell, 7)
    assert (postgresql.state, len(postgresql.effects), after) == (State.SUCCEEDED, 1, [7])


@each_part
def test_a_wrapper_that_a_body_puts_around_its_statements_sees_them_as_they_are(
    till: Till, postgresql: Counter, part: Any
) -> None:
    seen: list[str] = []

    def watch(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        seen.append(sql.split(maxsplit=1)[0])
        return execute(sql, params, many, context)

    def write() -> None:
        with connections[postgresql.alias].execute_wrapper(watch):
            postgresql.write()

    till.deliver(part(till, Nothing(postgresql.alias), write), 7)
    assert seen == ["INSERT"]
    assert len(postgresql.effects) == 1


@each_part
def test_what_a_wrapper_of_the_project_says_after_a_commit_keeps_no_hook_from_it(
    till: Till, postgresql: Counter, part: Any
) -> None:
    hooks: list[int] = []

    def explain(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        found = execute(sql, params, many, context)
        if not sql.startswith("SELECT 1"):
            with context["connection"].cursor() as cursor:
                cursor.execute("SELECT 1")
        return found

    def hook() -> None:
        transaction.on_commit(lambda: hooks.append(1), using=postgresql.alias)

    with connections[postgresql.alias].execute_wrapper(explain):
        till.deliver(part(till, postgresql, hook), 7)
    assert (postgresql.state, len(postgresql.effects), hooks) == (State.SUCCEEDED, 1, [1])


def test_what_a_wrapper_of_the_project_says_before_a_claim_is_said_in_its_transaction(
    till: Till, postgresql: Counter
) -> None:
    connection, tenants = connections[postgresql.alias], []

    def name_the_tenant(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if not sql.startswith("INSERT INTO django_idempotent_tasks"):
            return execute(sql, params, many, context)
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL app.tenant = 'acme'")
            found = execute(sql, params, many, context)
            cursor.execute("SELECT current_setting('app.tenant', true)")
            tenants.append(cursor.fetchone()[0])
        return found

    with connection.execute_wrapper(name_the_tenant):
        till.deliver(till.seller(postgresql), 7)
    assert tenants == ["acme"]
    assert postgresql.state == State.SUCCEEDED


def test_an_atomic_claim_travels_with_the_begin_of_a_transaction_that_is_like_any_other(
    till: Till, postgresql: Counter
) -> None:
    @till.guarded()
    def sell(self: Any, order: int) -> int:  # noqa: ARG001
        shop = Effect.objects.using(postgresql.alias)
        postgresql.sell(self)
        return len([*shop.select_for_update().iterator()])  # which no cursor can be that outlives its end

    heard = told(lambda: till.deliver(sell, 7))
    assert heard.messages[0].startswith("BEGIN; INSERT INTO django_idempotent_tasks")
    assert heard.statements.count("BEGIN") == 1
    assert (postgresql.state, postgresql.row.result) == (State.SUCCEEDED, "1")
