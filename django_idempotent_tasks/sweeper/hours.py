"""Counts the keys of each past hour by how they ended, so that charts need not read the keys."""

from __future__ import annotations

from datetime import datetime, timedelta

from ..ledger.moments import database_now, shifted
from ..ledger.stores import LedgerStore
from ..models import COUNTED, HourlyCount

HOUR = timedelta(hours=1)
#: How many hours are counted after a time without a sweeper, and how many hours one call counts.
BEHIND, BITE = 24, 6


def count_hours(store: LedgerStore) -> int:
    """Count a few of the past hours that are not counted yet, and return how many.

    The hour that was counted last is counted once more, to include keys that ended after that.
    """
    last_full = shifted(_floor(database_now(store)), -HOUR)
    last = _last_counted(store)
    if last is not None and last >= last_full:
        return 0
    begin = shifted(last_full, -BEHIND * HOUR)
    hour = begin if last is None else max(last, begin)
    done = 0
    while hour <= last_full and done < BITE:
        with store.together():
            store.count_hour(hour, shifted(hour, HOUR), marker=COUNTED)
        hour, done = shifted(hour, HOUR), done + 1
    return done


def _last_counted(store: LedgerStore) -> datetime | None:
    """The hour that was counted last, read on the store's own connection, which no alias names."""
    newest = HourlyCount.objects.filter(task=COUNTED).order_by("-hour").values_list("hour")[:1]
    compiler = newest.query.get_compiler(connection=store.connection)
    for (moment,) in compiler.results_iter():
        last: datetime | None = moment
        return last
    return None


def _floor(moment: datetime) -> datetime:
    return moment.replace(minute=0, second=0, microsecond=0)
