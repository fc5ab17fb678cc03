"""Transactions whose commit Django does not report, since it has not begun them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest
from django.db import connection, transaction

ByHand = Callable[[], AbstractContextManager[None]]


@contextmanager
def begun() -> Iterator[None]:
    """By a BEGIN in a cursor."""
    with connection.cursor() as cursor:
        cursor.execute("BEGIN")
        try:
            yield
        except BaseException:
            cursor.execute("ROLLBACK")
            raise
        cursor.execute("COMMIT")


@contextmanager
def without_autocommit() -> Iterator[None]:
    """By the first statement after ``set_autocommit(False)``."""
    transaction.set_autocommit(False)
    try:
        yield
        transaction.commit()
    finally:
        transaction.set_autocommit(True)


by_hand = pytest.mark.parametrize("by_hand", [begun, without_autocommit], ids=lambda each: each.__name__)
