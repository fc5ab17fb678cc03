"""Runs the redriven chunks of a batch where they are redriven, in eager mode: no worker would."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from ..identity.text import harmless
from ..ledger import batches
from ..ledger.stores import LedgerStore
from ..messages.message import Message
from ..sending.here import run_here

logger = logging.getLogger("django_idempotent_tasks")


def run_redriven(store: LedgerStore, task: Any, messages: Mapping[UUID, str]) -> None:
    """Run the calls of these keys where the task is eager, each whatever the others come to.

    To be called after the commit that redrove them. A body that fails again is a dead letter again, also
    with ``task_eager_propagates``. A task that is not eager, or is None, is left to the sweeper.
    """
    if task is None or not task.app.conf.task_always_eager:
        return
    for text in messages.values():
        try:
            run_here(task, Message.decode(task.name, text))
        except Exception as error:  # noqa: BLE001  whatever a body raises
            logger.warning("A redriven chunk of %s failed again: %s", task.name, harmless(repr(error)))
    batches.publish(task.app, store, batches.follow(store, list(messages)))
