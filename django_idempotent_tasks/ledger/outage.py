"""Notes since when the ledger answers: after an outage each owner has one lease to come back.

A lease that ended while nobody could reach the ledger says nothing about its owner. The sweepers of all
workers write down, as a duty of the leader table that nobody competes for, that the ledger answers. Where
that stopped for longer than ``GAP``, the count begins anew, and no lease is freed or taken over before it
is as long as that lease. A host that dies beside others leaves no such gap: its keys wait no longer.
"""

from __future__ import annotations

from ..states import State
from .stores import LedgerStore
from .stores.connection import is_open
from .values import Entry

#: The duty's name in the leader table, as the statement that reads a key has it, and its holder: everybody.
LEDGER = "ledger"

#: Seconds without a word of any sweeper that are an outage. Each says one every 3 s, unless a slow broker or
#: a full bite keeps it.
GAP = 10


def note(store: LedgerStore) -> int:
    """Write down that the ledger answers now; for how many whole seconds it has done so without a gap."""
    store.lead(LEDGER, holder=LEDGER, lease=GAP)
    return int(store.led_for(LEDGER) or 0)


def spared(store: LedgerStore, entry: Entry) -> float:
    """For how many seconds nobody may take over a key whose lease is over; 0 where anybody may.

    Its owner has as long to come back as the lease that it was given, whatever the claimant's would be.
    Where no sweeper has ever run nobody knows of an outage. Where none runs now, or none has come back yet,
    this look is noted for it, and lasts for as long as the caller will wait: but not in a transaction,
    whose length would keep all sweepers from their own notes.
    """
    if entry.state is not State.RUNNING or not entry.is_open or entry.answered_for is None:
        return 0.0
    if entry.answers:
        return max(entry.lease - entry.answered_for, 0.0)
    if is_open(store.connection):
        return 0.0
    store.lead(LEDGER, holder=LEDGER, lease=2 * entry.lease + GAP)
    return float(entry.lease)
