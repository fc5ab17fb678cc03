"""The signals of the package, and ``announce()``, which sends them after the commit.

A receiver that fails is logged and changes no outcome (``send_robust``). The package itself listens only
to write its log lines.

Arguments, each a keyword, ``sender`` is the task's name:

* ``key_claimed``, ``key_completed``: ``claim`` (:class:`~.ledger.values.Claim`).
* ``key_failed``: ``claim``, ``error`` (the exception), ``state``.
* ``dead_lettered``: ``call`` (:class:`~.ledger.values.Call`), ``state`` (FAILED or REVIEW), ``failure``
  (:class:`~.ledger.values.Failure`); also of work whose worker was killed, which no exception tells of.
* ``redriven``: ``digest``, ``token``, ``task_id``, ``by`` (who asked for it).
* ``key_taken_over``: ``claim``; the owner before it died or let its lease run out.
* ``lease_lost``: ``claim``; this process owned it and no longer does.
* ``duplicate_detected``: ``call`` (:class:`~.ledger.values.Call`), ``reason``, ``holder`` (task id).
* ``leader_changed``: ``name``, ``holder``; ``sender`` is None.
"""

from __future__ import annotations

import logging

from django.db import transaction
from django.dispatch import Signal

logger = logging.getLogger("django_idempotent_tasks")

key_claimed = Signal()
key_completed = Signal()
key_failed = Signal()
dead_lettered = Signal()
redriven = Signal()
key_taken_over = Signal()
lease_lost = Signal()
duplicate_detected = Signal()
leader_changed = Signal()


def announce(signal: Signal, *, sender: str | None, using: str | None, **arguments: object) -> None:
    """Send once the open transaction of ``using``, if any, has committed; now where it is None."""
    if signal.has_listeners(sender):

        def send() -> None:  # Django asks what fails for its name, which a partial does not have
            _send(signal, sender, arguments)

        if using is None:
            send()
        else:
            transaction.on_commit(send, using=using, robust=True)


def _send(signal: Signal, sender: str | None, arguments: dict[str, object]) -> None:
    for receiver, response in signal.send_robust(sender=sender, **arguments):
        if isinstance(response, Exception):
            logger.error("A receiver of a signal failed: %r", receiver, exc_info=response)
