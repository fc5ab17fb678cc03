"""Records the beats that stand by, each with a lease of its own, to show who could take over."""

from __future__ import annotations

from datetime import datetime, timedelta

from ..ledger.moments import database_now, shifted
from ..ledger.stores import LedgerStore
from ..models import BEAT, Leader
from .duty import LEASE

_PREFIX = f"{BEAT}:"
#: How long the row of a beat that is gone is kept.
_GONE = timedelta(hours=1)
#: How many standbys are listed.
SHOWN = 20


def duty_of(holder: str) -> str:
    """The name of a beat's own row, from the random end of its holder's name."""
    return f"{_PREFIX}{holder.rpartition(':')[2]}"


def note(store: LedgerStore, *, holder: str) -> None:
    """Record that this beat stands by, for the length of a lease."""
    store.lead(duty_of(holder), holder=holder, lease=LEASE)


def forget(store: LedgerStore, *, holder: str) -> None:
    """Delete this beat's row, and the rows of beats that are gone."""
    rows = Leader.objects.using(store.connection.alias)
    rows.filter(name=duty_of(holder)).delete()
    rows.filter(name__startswith=_PREFIX, expires_at__lt=shifted(database_now(store), -_GONE)).delete()


def standing_by(alias: str, *, now: datetime) -> list[Leader]:
    """The beats that stand by now, the longest first; ``SHOWN + 1`` at most."""
    rows = Leader.objects.using(alias).filter(name__startswith=_PREFIX, expires_at__gt=now)
    return list(rows.order_by("since")[: SHOWN + 1])
