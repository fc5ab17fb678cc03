"""Holds the SQL of the ledger, and chooses the store of the configured database by its vendor."""

from __future__ import annotations

from django.db import connections

from ...conf import settings
from ...exceptions import ConfigurationError
from .base import LedgerStore
from .mysql import MysqlStore
from .postgresql import PostgresStore
from .sqlite import SqliteStore

__all__ = ["LedgerStore", "get_store"]

_STORES: dict[str, type[LedgerStore]] = {
    "mysql": MysqlStore,
    "postgresql": PostgresStore,
    "sqlite": SqliteStore,
}


def get_store(alias: str | None = None) -> LedgerStore:
    """The store on this thread's connection of ``alias`` (default: the setting ``DATABASE``).

    Raises :class:`ConfigurationError` for a database without a store.
    """
    connection = connections[alias or settings().database]
    store = _STORES.get(connection.vendor)
    if store is None:
        msg = f"No ledger store for {connection.vendor!r}; use one of {', '.join(sorted(_STORES))}."
        raise ConfigurationError(msg)
    return store(connection)
