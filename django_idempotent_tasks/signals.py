"""Announcements to the project. Sent after commit with ``send_robust``; never our own control flow.

Arguments, each a keyword, ``sender`` is the task's name:

* ``key_claimed``, ``key_completed``: ``claim`` (:class:`~.outcomes.Claim`).
* ``key_failed``: ``claim``, ``error`` (the exception), ``state``.
* ``dead_lettered``: ``call`` (:class:`~.outcomes.Call`), ``state`` (FAILED or REVIEW), ``failure``
  (:class:`~.outcomes.Failure`); also of work whose worker was killed, which no exception tells of.
* ``redriven``: ``digest``, ``token``, ``task_id``, ``by`` (who asked for it).
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
dead_lettered = Signal()
redriven = Signal()
key_taken_over = Signal()
lease_lost = Signal()
duplicate_detected = Signal()
leader_changed = Signal()
