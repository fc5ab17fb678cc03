"""Counts what became of the keys of each hour once it is over, so that charts need not read the keys."""

from __future__ import annotations

from datetime import datetime, timedelta

from ..ledger.moments import database_now, shifted
from ..ledger.stores import LedgerStore
from ..models import COUNTED, HourlyCount

HOUR = timedelta(hours=1)
#: Hours that are counted afterwards where nobody swept, and hours that one call counts.
BEHIND, BITE = 24, 6


def count_hours(store: LedgerStore) -> int:
    """Count the hours that are over and not counted yet, a few a call; how many were counted.

    The last hour that was counted before is counted once more then, so that what ended late is in it.
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
    """On the store's own connection, which no alias names."""
    newest = HourlyCount.objects.filter(task=COUNTED).order_by("-hour").values_list("hour")[:1]
    compiler = newest.query.get_compiler(connection=store.connection)
    for (moment,) in compiler.results_iter():
        last: datetime | None = moment
        return last
    return None


def _floor(moment: datetime) -> datetime:
    return moment.replace(minute=0, second=0, microsecond=0)
