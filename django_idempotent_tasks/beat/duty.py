"""The duty of leading beat: its lease and its pace in seconds."""

from __future__ import annotations

LEASE = 15
PACE = 5.0
#: Seconds between two looks of a standby.
STANDBY = 2.0
#: Seconds after which the entries are read again, whatever the change marker says: QuerySet.update() and
#: SQL do not set it.
READ_AGAIN = 60.0
