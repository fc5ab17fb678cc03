"""The ledger's store, its database alias and its clock, for the admin's modules."""

from __future__ import annotations

from datetime import datetime

from django.http import HttpRequest

from ...ledger.moments import database_now
from ...ledger.stores import LedgerStore, get_store

_CLOCK = "_idempotent_now"


def store() -> LedgerStore:
    """The store of the setting ``DATABASE``."""
    return get_store()


def alias() -> str:
    """The alias of the ledger's database."""
    return str(store().connection.alias)


def now(request: HttpRequest) -> datetime:
    """The database's time, read once a request."""
    if not hasattr(request, _CLOCK):
        setattr(request, _CLOCK, database_now(store()))
    moment: datetime = getattr(request, _CLOCK)
    return moment
