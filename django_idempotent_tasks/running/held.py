"""Leaves a delivered call of a paused task to the ledger: no attempt and no retry is used up."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from celery.exceptions import Ignore
from django.db import Error as DatabaseError

from ..conf import settings
from ..ledger import pauses
from ..ledger.ledger import Ledger
from ..ledger.paused import Paused
from ..ledger.rules import Step
from ..ledger.stores import LedgerStore
from ..ledger.values import Call, Entry, Reserved
from ..messages.header import RESERVED
from ..messages.message import stored_text
from ..states import State
from .handlers import mark_answered
from .reschedule import LONGEST_WAIT, come_back

logger = logging.getLogger("django_idempotent_tasks")


def hold_back(
    task: Any, store: LedgerStore, call: Call, header: dict[str, Any], *, begin: Callable[[], None]
) -> None:
    """Raise ``Ignore`` where the call waits in the ledger, or a copy of its message with the broker.

    Returns where the task is not paused, where the call is answered without its body, or where the ledger
    does not answer: the delivery then goes on, and finds out for itself. ``begin`` is called before
    anything is written, and closes a connection on which an earlier task has left a transaction open.
    """
    pause = pauses.told_of(store, call.task, call.identity.scope)
    if pause is None:
        return
    begin()
    try:
        is_held = _is_held(Ledger(store, task.idempotency_policy), _stored(task, call, header), pause)
    except DatabaseError as error:
        logger.warning("%s: whether its call is paused could not be written (%r)", call.task, error)
        return
    if is_held is None:
        return
    mark_answered(task.request)
    if is_held:
        logger.info("%s (%s) is paused: its call waits in the ledger", call.task, call.task_id)
        raise Ignore
    come_back(task, seconds=LONGEST_WAIT)


def _stored(task: Any, call: Call, header: dict[str, Any]) -> Call:
    return replace(call, message=stored_text(task, task.request, {**header, RESERVED: True}))


def _is_held(ledger: Ledger, call: Call, pause: Paused) -> bool | None:
    """True: the ledger has it. False: it cannot, and a copy has to come back. None: no body would run."""
    entry, verdict = ledger.look(call, owner="")
    if verdict.step is Step.REOPEN and ledger.policy.follows:
        return None  # the call may have to follow a cancelled run
    match verdict.step:
        case Step.INSERT | Step.REOPEN:
            return _is_reserved(ledger, call, pause)
        case Step.OPEN | Step.WAIT if entry is not None:
            return _is_parked(ledger.store, call, entry, pause)
        case _:
            return None


def _is_reserved(ledger: Ledger, call: Call, pause: Paused) -> bool | None:
    """Keep a call that nobody has reserved, where its arguments may be kept."""
    if call.message is None:
        return False
    outcome = ledger.reserve(call, wait=settings().republish_after, sends=-1)
    if not isinstance(outcome, Reserved):
        return None
    return ledger.store.park(call.identity.digest, token=outcome.token, pause=pause.id) or None


def _is_parked(store: LedgerStore, call: Call, entry: Entry, pause: Paused) -> bool | None:
    """Leave a call that its row has stored; what runs ends, and its copies wait for that."""
    if entry.state is State.RUNNING:
        return False if entry.is_open else None
    if entry.no_message:
        return False
    return store.park(call.identity.digest, token=entry.token, pause=pause.id) or None
