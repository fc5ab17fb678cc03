"""A table of keys that the statements of the documentation divide loses nothing, and keeps the contract."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection

from benchmarks.rows.partitions import APART, statements
from django_idempotent_tasks.ledger import constraints
from django_idempotent_tasks.ledger.stores import LedgerStore, get_store
from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.testing.contract import StoreContract
from tests.support.ledger.crowd import fill

pytestmark = [
    pytest.mark.postgresql,
    pytest.mark.django_db(transaction=True, available_apps=["django_idempotent_tasks"]),
]

KEY = IdempotencyKey._meta.db_table
DIVIDED = f"SELECT relkind FROM pg_class WHERE oid = 'public.{KEY}'::regclass"  # noqa: S608  our own name
BACK = f"""
DROP TABLE public.{KEY};
ALTER TABLE before.{KEY} SET SCHEMA public;
DROP SCHEMA before;
DROP SCHEMA parts;
"""


def say(*sentences: str) -> list[Any]:
    """Say each by itself; what the last one answers."""
    with connection.cursor() as cursor:
        for sentence in sentences:
            cursor.execute(sentence)
        return cursor.fetchall() if cursor.description else []


@contextmanager
def moved_back() -> Iterator[None]:
    """Undo the move at the end, as far as it came."""
    try:
        yield
    finally:
        is_divided = say(DIVIDED) == [("p",)]
        say(BACK if is_divided else "DROP SCHEMA IF EXISTS parts CASCADE")


def change_some_keys() -> None:
    """An update, a key that becomes another, and deletions."""
    keys = IdempotencyKey.objects.order_by("?")
    assert keys.filter(pk=keys.values("pk")[0]["pk"]).update(duplicates=7) == 1
    assert keys.filter(pk=keys.values("pk")[0]["pk"]).update(digest=uuid4()) == 1
    assert keys.filter(pk__in=[row.pk for row in keys[:9]]).delete()[0] == 9


def test_a_move_loses_no_change_that_is_made_meanwhile_and_no_constraint() -> None:
    fill("default")
    make, follow, copy, swap = statements()
    with moved_back():
        for step in (make, follow, copy, copy.replace(" SKIP LOCKED", "")):
            say(step)
            change_some_keys()
        assert say(APART) == [(0,)]
        say(swap)
        assert IdempotencyKey.objects.count() == 5000 - 4 * 9
        assert constraints.missing(get_store()) == []


@pytest.fixture(scope="class")
def _divided(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:  # noqa: ARG001  made before
    with django_db_blocker.unblock(), moved_back():
        say(*statements())
        yield


@pytest.mark.slow
@pytest.mark.usefixtures("_divided")
class TestPartitions(StoreContract):
    def store(self) -> LedgerStore:
        return get_store()
