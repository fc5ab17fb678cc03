"""Nothing is prepared behind a pooler that may change servers: another server would not know its name."""

from __future__ import annotations

import pytest
from django.db import connections

from django_idempotent_tasks.ledger.stores import LedgerStore, get_store, prepared
from django_idempotent_tasks.testing.contract.bench import Bench
from tests.support.workers.site import Site

pytestmark = [pytest.mark.process]


class Keys(Bench):
    """Calls on one alias."""

    def __init__(self, alias: str) -> None:
        self._alias = alias

    def store(self) -> LedgerStore:
        return get_store(self._alias)


def prepared_after_three(alias: str) -> tuple[str, ...]:
    """What the server has prepared for a connection after three calls."""
    keys = Keys(alias)
    for _ in range(3):
        assert keys.complete(keys.claimed())
    with connections[alias].cursor() as cursor:
        cursor.execute("SELECT name FROM pg_prepared_statements")
        return tuple(name for (name,) in cursor.fetchall())


def test_a_pooled_connection_prepares_nothing_and_a_direct_one_does(
    frail: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepared, "OFTEN", 1)
    alias = frail.rows.alias
    assert not connections[alias].settings_dict.get("DISABLE_SERVER_SIDE_CURSORS")
    assert prepared_after_three(alias) == ()
    assert len(prepared_after_three("default")) == 2
