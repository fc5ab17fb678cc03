"""What is noted on a connection about a transaction begun by hand is over with the block that noted it."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection

from django_idempotent_tasks.ledger.stores import connection as home
from django_idempotent_tasks.ledger.stores import get_store

pytestmark = [pytest.mark.postgresql, pytest.mark.django_db(transaction=True)]


class Struck(Exception):
    """What a signal's handler raises, such as a soft time limit."""


def test_a_signal_that_strikes_as_the_depth_is_noted_leaves_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def strikes(of: Any, name: str, value: int) -> None:
        monkeypatch.undo()
        setattr(of, name, value)
        raise Struck

    with connection.cursor() as cursor:
        cursor.execute("BEGIN")
    monkeypatch.setattr(home, "setattr", strikes, raising=False)
    with pytest.raises(Struck), home.in_the_callers(connection, at_any_cost=True):
        pass
    connection.close()
    with get_store().together():  # a transaction, and no savepoint in none
        assert connection.in_atomic_block
