"""Announcements to the project. Sent after commit with ``send_robust``; never our own control flow.

Arguments, each a keyword, ``sender`` is the task's name:

* ``key_claimed``, ``key_completed``: ``claim`` (:class:`~.outcomes.Claim`).
* ``key_failed``: ``claim``, ``error`` (the exception), ``state``.
* ``key_taken_over``: ``claim``; the owner before it died or let its lease run out.
* ``lease_lost``: ``claim``; this process owned it and no longer does.
* ``duplicate_detected``: ``call`` (:class:`~.outcomes.Call`), ``reason``, ``holder`` (task id).
* ``leader_changed``: ``name``, ``holder``; ``sender`` is None.
"""

from __future__ import annotations

from django.dispatch import Signal

key_claimed = Signal()
key_completed = Signal()
key_failed = Signal()
key_taken_over = Signal()
lease_lost = Signal()
duplicate_detected = Signal()
leader_changed = Signal()
