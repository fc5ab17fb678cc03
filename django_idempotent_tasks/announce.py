"""Sends the signals: after commit, robustly, so that no receiver can change an outcome."""

from __future__ import annotations

import logging

from django.db import transaction
from django.dispatch import Signal

logger = logging.getLogger("django_idempotent_tasks")


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
