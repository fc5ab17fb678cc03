"""Mistakes that no statement shows: a store that answers wrongly about its transaction or its times."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connections

from django_idempotent_tasks.ledger.stores import LedgerStore, get_store
from django_idempotent_tasks.ledger.stores.atomic import AtomicClaims
from django_idempotent_tasks.ledger.values import Call
from django_idempotent_tasks.testing.contract import StoreContract

pytestmark = pytest.mark.django_db(
    transaction=True, databases=["default", "sqlite"], available_apps=["django_idempotent_tasks"]
)

ALIASES = pytest.mark.parametrize("alias", ["default", "sqlite"])


class Subject(StoreContract):
    """The shipped contract on a store of which one method is replaced."""

    def __init__(self, alias: str, **methods: Callable[..., Any]) -> None:
        self._alias = alias
        self.has_row_locks = connections[alias].vendor != "sqlite"
        self._store_class = type("Wrong", (type(get_store(alias)),), methods)

    def store(self) -> LedgerStore:
        store: LedgerStore = self._store_class(connections[self._alias])
        return store


def right(alias: str) -> Any:
    """The store's own class."""
    return type(get_store(alias))


def is_caught(subject: Subject, promise: str) -> None:
    with pytest.raises(AssertionError):
        getattr(subject, f"test_{promise}")()


@pytest.mark.postgresql
def test_it_is_caught_that_a_failed_statement_is_overlooked() -> None:
    subject = Subject("default", _has_failed=lambda _: False)
    is_caught(subject, "a_statement_that_failed_and_was_passed_over_is_a_problem_where_it_undoes_the_rest")


@ALIASES
def test_it_is_caught_that_an_ended_transaction_is_overlooked(alias: str) -> None:
    def look(store: AtomicClaims) -> bool | None:
        failed: bool | None = right(alias)._has_failed(store)
        return failed or False

    is_caught(Subject(alias, _has_failed=look), "a_transaction_that_its_body_ended_is_a_problem")


@ALIASES
def test_it_is_caught_that_a_mark_for_rollback_is_overlooked(alias: str) -> None:
    subject = Subject(alias, transaction_problem=lambda store: None if store._has_failed() is False else "?")
    is_caught(subject, "a_transaction_that_was_marked_for_rollback_is_a_problem")
    is_caught(subject, "an_error_that_was_caught_inside_the_block_that_it_marked_is_a_problem")


@ALIASES
def test_it_is_caught_that_every_transaction_has_a_problem(alias: str) -> None:
    subject = Subject(alias, transaction_problem=lambda _: "?")
    is_caught(subject, "a_transaction_in_order_has_no_problem")
    is_caught(subject, "a_failure_inside_a_savepoint_of_its_own_is_no_problem")


@ALIASES
@pytest.mark.parametrize("longest", ["retention", "window"])
def test_it_is_caught_that_one_of_two_times_is_overlooked(alias: str, longest: str) -> None:
    def times(store: Any, call: Call, owner: str, retention: int, window: int) -> dict[str, Any]:
        kept = {"retention": retention, "window": window}[longest]
        both: dict[str, Any] = right(alias)._atomic(store, call, owner, retention, window)
        return both | {"kept": kept}

    is_caught(
        Subject(alias, _atomic=times),
        "an_atomic_claim_is_kept_for_its_retention_or_the_window_whichever_is_longer",
    )


@ALIASES
def test_it_is_caught_that_what_is_written_while_a_key_is_held_is_not_one_transaction(alias: str) -> None:
    class Alone:
        def __enter__(self) -> bool:
            return True

        def __exit__(self, *error: object) -> None:
            """Commit nothing and take nothing back."""

    subject = Subject(alias, holding=lambda *_: Alone())
    is_caught(subject, "what_is_written_while_a_key_is_held_is_seen_by_others_at_the_end")
    is_caught(subject, "what_is_written_while_a_key_is_held_is_gone_after_an_error")
    is_caught(subject, "what_a_side_connection_wrote_while_it_held_a_key_is_gone_after_an_error")


@ALIASES
def test_a_store_with_nothing_replaced_is_not_taken_for_a_wrong_one(alias: str) -> None:
    subject = Subject(alias)
    subject.test_a_transaction_that_its_body_ended_is_a_problem()
    subject.test_a_transaction_that_was_marked_for_rollback_is_a_problem()
