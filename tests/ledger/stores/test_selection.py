"""Which store a database gets, and the one clock of all stores."""

from __future__ import annotations

import pytest
from django.db import connections
from django.test import override_settings

from django_idempotent_tasks.exceptions import ConfigurationError
from django_idempotent_tasks.ledger.stores import get_store
from django_idempotent_tasks.ledger.stores.clock import offset, shifted
from django_idempotent_tasks.ledger.stores.postgresql import PostgresStore
from django_idempotent_tasks.ledger.stores.sqlite import SqliteStore


@pytest.mark.postgresql
def test_a_store_is_chosen_by_the_vendor_of_its_database() -> None:
    assert isinstance(get_store("default"), PostgresStore)
    assert isinstance(get_store("sqlite"), SqliteStore)


def test_a_store_is_on_this_threads_connection() -> None:
    assert get_store("sqlite").connection is connections["sqlite"]


def test_without_a_name_the_ledgers_database_is_meant() -> None:
    with override_settings(IDEMPOTENT_TASKS={"DATABASE": "sqlite"}):
        assert get_store().connection.alias == "sqlite"


def test_a_database_without_a_store_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections["sqlite"], "vendor", "oracle")
    with pytest.raises(ConfigurationError, match=r"'oracle'.*postgresql, sqlite"):
        get_store("sqlite")


def test_the_clock_is_moved_only_inside_and_moves_add_up() -> None:
    assert offset() == 0
    with shifted(10):
        with shifted(-3):
            assert offset() == 7
        assert offset() == 10
    assert offset() == 0


def test_the_clock_is_put_right_after_an_error() -> None:
    with pytest.raises(ZeroDivisionError), shifted(10):
        _ = 1 / 0
    assert offset() == 0
