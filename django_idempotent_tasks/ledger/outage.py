"""Notes since when the ledger answers, so that after an outage each owner has one lease to come back.

A lease that ended while nobody could reach the ledger says nothing about its owner. The sweepers of all
workers, and copies of messages that wait, note in the leader table, as a duty that they hold together, that
the ledger answers. After more than ``GAP`` seconds without a note the count begins anew, and no lease is
freed or taken over before the ledger has answered for as long as that lease. A host that dies beside others
leaves no such gap: nobody waits longer for its keys.
"""

from __future__ import annotations

from ..states import State
from .stores import LedgerStore
from .stores.connection import is_open
from .values import Entry

#: The name of that duty, and of its holder, in the leader table; the statement that reads a key has it too.
LEDGER = "ledger"

#: Seconds without any note that count as an outage. Each sweeper notes every 3 s, unless a slow
#: broker or a full bite delays it.
GAP = 10

#: The part of a gap for which a note is young. A copy that waits writes none then: all notes are one row, for
#: which a thousand copies would queue.
YOUNG = 1 / 3


def note(store: LedgerStore) -> int:
    """Note that the ledger answers, and return for how many whole seconds it has done so without a gap."""
    store.lead(LEDGER, holder=LEDGER, lease=GAP)
    return int(store.led_for(LEDGER) or 0)


def spared(store: LedgerStore, entry: Entry) -> float:
    """For how many seconds a copy waits before it looks again at a key whose lease is over; 0: take it over.

    Its owner has as long to come back as the lease that it was given, whatever the claimant's would be.
    Where no sweeper has ever run, nobody knows of an outage: 0. Meanwhile a copy that waits notes that the
    ledger answers, as sweepers do, of which perhaps none runs, or none has come back yet. Its note is good
    for no longer than theirs, or it would hide the next outage; so the copy comes back twice in that time.
    Beside sweepers, whose notes are young, copies hardly ever write. Inside a transaction nobody notes,
    which would keep all sweepers from their own notes until its end.
    """
    if entry.state is not State.RUNNING or not entry.is_open or entry.answered_for is None:
        return 0.0
    left = entry.lease - (entry.answered_for if entry.answers else 0.0)
    if left <= 0:
        return 0.0
    if is_open(store.connection):
        return left
    if entry.note_lasts < GAP * (1 - YOUNG):
        store.lead(LEDGER, holder=LEDGER, lease=GAP)
    return min(left, GAP / 2)
