"""What a worker's parent writes for an atomic run that was killed: its transaction has left nothing."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from kombu.asynchronous import get_event_loop

from ..conf import settings
from ..messages.message import stored_text
from ..states import Reason, State
from .atomic import ANY_TOKEN, AtomicLedger, Recorded
from .owner import new_owner
from .stores import LedgerStore, get_store
from .values import Call, Claim, Failure

logger = logging.getLogger("django_idempotent_tasks")

#: How an undone run ends: a verb of the store on a claim made for it.
Ending = Callable[[LedgerStore, Claim], bool]

#: Seconds between tries while the dead child's transaction still has the key: its server process ends the
#: statement that it was sent before it notices.
PAUSES = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8)


def stored(task: Any, call: Call, context: Any) -> Call:
    """The call with the message of its request."""
    return replace(call, message=stored_text(task, context))


def record(task: Any, call: Call, ending: Ending) -> Recorded:
    """Claim for the run that is gone, and end that; whatever the row says by now is decided upon."""
    with get_store().side_connection() as store:
        ledger = AtomicLedger(store, task.idempotency_policy)
        return ledger.record(
            call,
            owner=new_owner(),
            seen=ANY_TOKEN,
            settle=lambda claim: ending(store, claim),
        )


def take_back(task: Any, call: Call) -> None:
    """Take a start back that was counted as a crash before it began, and that nobody else has followed."""
    with get_store().side_connection() as store:
        entry = store.read(call.identity.digest, task_id=call.task_id)
        if entry is None or entry.state is not State.RETRY or entry.reason is not Reason.OWNER_DIED:
            return
        ledger = AtomicLedger(store, task.idempotency_policy, counted=entry.token)
        ledger.record(call, owner=new_owner(), seen=entry.token, settle=ledger.release)


def record_soon(
    guard: Callable[[Callable[[], object]], None],
    task: Any,
    call: Call,
    ending: Ending,
    *,
    told: Callable[[], None] = lambda: None,
) -> None:
    """Record now, or as soon as the dead child's transaction has ended; then call ``told``."""
    pauses = iter(PAUSES)

    def attempt() -> None:
        recorded = record(task, call, ending)
        if recorded is Recorded.DONE:
            told()
        if recorded is not Recorded.HELD:
            return
        pause, hub = next(pauses, None), get_event_loop()
        if pause is None or hub is None:
            logger.error("%s (%s): its end was not recorded, its key is held", task.name, call.task_id)
        else:  # on the worker's own event loop: no thread holds a connection while it forks a new child
            hub.call_later(pause, lambda: guard(attempt))

    guard(attempt)


def crashed(failure: Failure) -> Ending:
    """RETRY with a crash counted."""

    def free(store: LedgerStore, claim: Claim) -> bool:
        republish = settings().republish_after
        return store.free_dead(claim.digest, owner_prefix=claim.owner, republish=republish, failure=failure)

    return free


def failed(failure: Failure) -> Ending:
    """FAILED with a recorded error, its retries used up."""

    def fail(store: LedgerStore, claim: Claim) -> bool:
        return store.fail(
            claim,
            state=State.FAILED,
            reason=Reason.RETRIES_USED_UP,
            failure=failure,
            retention=settings().dead_letter_retention,
        )

    return fail


def cancelled(store: LedgerStore, claim: Claim) -> bool:
    """CANCELLED: what was revoked stays so, whichever copy of it arrives."""
    return store.cancel(claim.digest, window=settings().redelivery_window)
