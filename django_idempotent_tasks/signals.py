"""The signals of the package, and ``announce()``, which sends them after the commit.

A receiver that fails is logged and changes no outcome (``send_robust``). The package itself listens only
to write its log lines.

Arguments, each a keyword, ``sender`` is the task's name:

* ``attempt_started``: ``claim``; a body begins, an atomic one inside its transaction. Not for a receiver that
  writes to the database.
* ``key_claimed``, ``key_completed``: ``claim`` (:class:`~.ledger.values.Claim`).
* ``key_failed``: ``claim``, ``error`` (the exception), ``state``, ``failure``
  (:class:`~.ledger.values.Failure`; its ``category`` is EXPECTED for an end that the task expects).
* ``dead_lettered``: ``call`` (:class:`~.ledger.values.Call`), ``state`` (FAILED or REVIEW), ``failure``
  (:class:`~.ledger.values.Failure`); also of work whose worker was killed, which no exception tells of.
  Not of an expected end.
* ``redriven``: ``digest``, ``token``, ``task_id``, ``by`` (who asked for it).
* ``key_retried``: ``claim``, ``reason`` (:class:`~.states.Reason`), ``failure``
  (:class:`~.ledger.values.Failure` or None); the call runs again later.
* ``key_taken_over``: ``claim``; the owner before it died or let its lease run out.
* ``lease_lost``: ``claim``; this process owned it and no longer does.
* ``duplicate_detected``: ``call`` (:class:`~.ledger.values.Call`), ``reason``, ``holder`` (task id).
* ``would_refuse``: ``call``, ``reason``, ``holder`` (task id); of a task in shadow mode, which runs the call.
* ``follow_up_accepted``: ``call`` (:class:`~.ledger.values.Call`), which runs once the call ``holder`` (task
  id) of its key has ended.
* ``leader_changed``: ``name``, ``holder``; ``sender`` is None.
"""

from __future__ import annotations

import logging

from django.db import connections, transaction
from django.dispatch import Signal

logger = logging.getLogger("django_idempotent_tasks")

attempt_started = Signal()
key_claimed = Signal()
key_completed = Signal()
key_failed = Signal()
key_retried = Signal()
dead_lettered = Signal()
redriven = Signal()
key_taken_over = Signal()
lease_lost = Signal()
duplicate_detected = Signal()
would_refuse = Signal()
follow_up_accepted = Signal()
leader_changed = Signal()


def announce(signal: Signal, *, sender: str | None, using: str | None, **arguments: object) -> None:
    """Send once the open transaction of ``using``, if any, has committed; now where it is None.

    Now also in manual transaction management, a ``BEGIN`` by hand among it: Django reports no commit of it.
    """
    if signal.receivers and signal.has_listeners(sender):  # the first look spares most tasks the second

        def send() -> None:  # Django asks what fails for its name, which a partial does not have
            _send(signal, sender, arguments)

        if using is None or _is_manual(using):
            send()
        else:
            transaction.on_commit(send, using=using, robust=True)


def _is_manual(using: str) -> bool:
    """Whether autocommit is off outside ``atomic()``, where Django refuses a hook of the commit."""
    connection = connections[using]
    return not (connection.in_atomic_block or connection.get_autocommit())


def _send(signal: Signal, sender: str | None, arguments: dict[str, object]) -> None:
    for receiver, response in signal.send_robust(sender=sender, **arguments):
        if isinstance(response, Exception):
            logger.error("A receiver of a signal failed: %r", receiver, exc_info=response)
