"""Ends keys whose owner cannot: its process is dead or killed, or no worker can read or run its message.

The worker's parent process, the sweeper and people call these functions, and decide when. Each function
moves the row and announces ``dead_lettered`` where the row became a dead letter. What an owner ends itself
is in ``ledger.py``.

A leased run has left its claim in the row: that claim is ended by its owner's name or its token. An atomic
run that was killed has left nothing: a ``record_...`` function makes a claim for it and ends that claim, in
one transaction.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any
from uuid import UUID

from .. import signals
from ..conf import settings
from ..identity.key import Identity
from ..models import IdempotencyKey
from ..signals import announce
from ..states import Category, Reason, State
from .atomic import ANY_TOKEN, AtomicLedger, Recorded
from .encoding import error_parts
from .failures import failure_of, storable_text
from .owner import new_owner
from .stores import LedgerStore, get_store
from .stores.connection import read_on
from .values import Call, Claim, Due, Failure

#: How often the sweeper tries a message that cannot be read or sent, each time after twice as long.
LOOKS = 6

_ROW = ("digest", "task", "task_id", "scope", "key_text", "signature", "result")

#: A verb of the store on a claim that was made for a run that has left nothing.
_End = Callable[[LedgerStore, Claim], bool]


# -- leased runs --


def free_crashed(store: LedgerStore, call: Call, *, owner: str, failure: Failure) -> None:
    """Free the key of a dead child, with a crash counted; ``owner`` is how the owner's name begins."""
    digest, republish = call.identity.digest, settings().republish_after
    if store.free_dead(digest, owner_prefix=owner, republish=republish, failure=failure):
        _announce_review(store, digest, worker=failure.worker)


def free_stopped(store: LedgerStore, call: Call, *, owner: str, worker: str) -> None:
    """Free the key of a child that ended with its worker, due now, unless the child gave it back itself."""
    digest = call.identity.digest
    entry = store.read(digest, task_id=call.task_id)
    if entry is None or entry.state is not State.RUNNING or not (entry.owner or "").startswith(owner):
        return
    if store.release(digest, token=entry.token):
        _announce_review(store, digest, worker=worker)


def fail_timed_out(store: LedgerStore, call: Call, *, owner: str, failure: Failure) -> None:
    """Fail the key of a child that is killed for its hard time limit; REVIEW inside ``external()``."""
    digest, retention = call.identity.digest, settings().dead_letter_retention
    if store.fail_dead(
        digest, owner_prefix=owner, reason=Reason.RETRIES_USED_UP, failure=failure, retention=retention
    ):
        entry = store.read(digest, task_id=call.task_id)
        _announce(call, State.FAILED if entry is None else entry.state, failure)


def release(store: LedgerStore, row: IdempotencyKey) -> bool:
    """Take a RUNNING key, as ``row`` was read, from its owner: RETRY, due now, or REVIEW in ``external()``.

    False when the row has moved on.
    """
    if not store.release(row.digest, token=row.token):
        return False
    _announce_review(store, row.digest, worker=row.owner or "", using=store.connection.alias)
    return True


def sweep(store: LedgerStore, *, bite: int, calm: int, until: datetime | None) -> list[Due]:
    """Free keys whose lease has expired, and return the rows that were moved, or are due to be sent."""
    rows = store.sweep(bite=bite, republish=settings().republish_after, calm=calm, until=until)
    for row in rows:  # at once: no later sweep takes these rows, should the caller fail
        if row.state is State.REVIEW:
            _announce_review(store, row.digest)
    return rows


# -- messages that nobody can read or run --


def fail_unsendable(store: LedgerStore, row: Due, error: Exception) -> None:
    """Fail a key whose message cannot be read or sent: a person sends the call again, or discards it."""
    failure = failure_of(error, task=row.task, category=Category.FATAL)
    found = IdempotencyKey.objects.filter(digest=row.digest, token=row.token)
    for key in read_on(store, found, _ROW):
        fail_unknown(store, _call_of(key), sends=LOOKS - 1, failure=failure)


def fail_unknown(store: LedgerStore, call: Call, *, sends: int, failure: Failure) -> None:
    """Fail the key of a call that nobody runs, once its message was sent again ``sends`` times."""
    digest, retention = call.identity.digest, settings().dead_letter_retention
    if store.fail_unknown(digest, task_id=call.task_id, sends=sends, failure=failure, retention=retention):
        _announce(call, State.FAILED, failure)


# -- atomic runs, whose transaction was rolled back, and calls that are filed by hand --


def record_crash(task: Any, call: Call, failure: Failure) -> Recorded:
    """RETRY, with a crash counted."""

    def free(store: LedgerStore, claim: Claim) -> bool:
        republish = settings().republish_after
        return store.free_dead(claim.digest, owner_prefix=claim.owner, republish=republish, failure=failure)

    return _record(task, call, free)


def record_stop(task: Any, call: Call) -> Recorded:
    """RETRY, due now, and no crash."""
    return _record(task, call, lambda store, claim: store.release(claim.digest, token=claim.token))


def record_timeout(task: Any, call: Call, failure: Failure) -> Recorded:
    """FAILED: the hard time limit ended the run, and its message is acknowledged."""
    recorded = _record(task, call, _failing(State.FAILED, Reason.RETRIES_USED_UP, failure))
    if recorded is Recorded.DONE:
        _announce(call, State.FAILED, failure)
    return recorded


def record_cancel(task: Any, call: Call) -> Recorded:
    """CANCELLED, so that no copy of the revoked call runs, whenever that arrives."""

    def cancel(store: LedgerStore, claim: Claim) -> bool:
        return store.cancel(claim.digest, window=settings().redelivery_window)

    return _record(task, call, cancel)


def uncount_start(task: Any, call: Call) -> None:
    """Take back a start that was counted as a crash before it began, unless another one has followed."""
    with get_store().side_connection() as store:
        entry = store.read(call.identity.digest, task_id=call.task_id)
        if entry is None or entry.state is not State.RETRY or entry.reason is not Reason.OWNER_DIED:
            return
        ledger = AtomicLedger(store, task.idempotency_policy, counted=entry.token)
        ledger.record(call, owner=new_owner(), seen=entry.token, settle=ledger.release)


def file_by_hand(
    ledger: AtomicLedger, call: Call, *, state: State, reason: Reason, failure: Failure
) -> Recorded:
    """Make a call that was never sent a dead letter, in the open transaction if there is one."""
    fail = _failing(state, reason, failure)
    recorded = ledger.record(
        call, owner=new_owner(), seen=ANY_TOKEN, settle=lambda claim: fail(ledger.store, claim)
    )
    if recorded is Recorded.DONE:
        _announce(call, state, failure, using=ledger.store.connection.alias)
    return recorded


def _record(task: Any, call: Call, end: _End) -> Recorded:
    """Claim for the run that is gone, and end that claim, whatever the row says by now."""
    with get_store().side_connection() as store:
        ledger = AtomicLedger(store, task.idempotency_policy)
        return ledger.record(call, owner=new_owner(), seen=ANY_TOKEN, settle=lambda claim: end(store, claim))


def _failing(state: State, reason: Reason, failure: Failure) -> _End:
    retention = settings().dead_letter_retention
    return lambda store, claim: store.fail(
        claim, state=state, reason=reason, failure=failure, retention=retention
    )


# -- the announcement --


def _announce_review(store: LedgerStore, digest: UUID, *, worker: str = "", using: str | None = None) -> None:
    """Announce a key that has just moved to REVIEW because its owner is gone; nothing for any other key."""
    found = IdempotencyKey.objects.filter(digest=digest, state=State.REVIEW, reason=Reason.OWNER_DIED)
    for key in read_on(store, found, _ROW):
        error, description = error_parts(key.result)
        failure = Failure(
            error, description, "", key.signature or "", Category.MANUAL_REVIEW, storable_text(worker)
        )
        _announce(_call_of(key), State.REVIEW, failure, using=using)


def _call_of(key: IdempotencyKey) -> Call:
    return Call(Identity(key.digest, key.scope, key.key_text, None), key.task, key.task_id, None)


def _announce(call: Call, state: State, failure: Failure, *, using: str | None = None) -> None:
    announce(signals.dead_lettered, sender=call.task, using=using, call=call, state=state, failure=failure)
