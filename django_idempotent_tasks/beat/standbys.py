"""Beats that stand by: each holds a lease of its own, so that people see how many could take over."""

from __future__ import annotations

from datetime import datetime, timedelta

from ..ledger.moments import database_now, shifted
from ..ledger.stores import LedgerStore
from ..models import BEAT, Leader
from .duty import LEASE

_PREFIX = f"{BEAT}:"
#: Rows of beats that are gone are deleted after so long.
_GONE = timedelta(hours=1)
#: Standbys that are listed.
SHOWN = 20


def duty_of(holder: str) -> str:
    """The name of this beat's own row; a holder ends with what no other has."""
    return f"{_PREFIX}{holder.rpartition(':')[2]}"


def note(store: LedgerStore, *, holder: str) -> None:
    """Say that this beat stands by, for as long as a lease is."""
    store.lead(duty_of(holder), holder=holder, lease=LEASE)


def forget(store: LedgerStore, *, holder: str) -> None:
    """This beat stands by no longer; rows of those that are gone are deleted with it."""
    rows = Leader.objects.using(store.connection.alias)
    rows.filter(name=duty_of(holder)).delete()
    rows.filter(name__startswith=_PREFIX, expires_at__lt=shifted(database_now(store), -_GONE)).delete()


def standing_by(alias: str, *, now: datetime) -> list[Leader]:
    """Those that stand by now, the one that has done so for longest first; a bounded number."""
    rows = Leader.objects.using(alias).filter(name__startswith=_PREFIX, expires_at__gt=now)
    return list(rows.order_by("since")[: SHOWN + 1])
