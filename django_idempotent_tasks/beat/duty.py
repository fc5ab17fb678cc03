"""The lease and the pace of the beat that leads, in seconds."""

from __future__ import annotations

LEASE = 15
PACE = 5.0
#: Seconds after which a standby tries to lead again.
STANDBY = 2.0
#: Seconds after which the entries are read again, whatever the change marker says: QuerySet.update() and
#: SQL do not set the marker.
READ_AGAIN = 60.0
