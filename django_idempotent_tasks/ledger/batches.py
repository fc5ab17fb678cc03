"""Follows the chunks of batches to their ends, ends batches, and reserves and sends what comes after them."""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Iterable
from uuid import UUID

from celery import Celery
from django.db import Error as DatabaseError

from ..conf import settings
from ..identity.key import Identity
from ..messages.message import Message
from ..messages.relay import relay
from .stores import LedgerStore
from .values import Call, Claim

logger = logging.getLogger("django_idempotent_tasks")

#: The token of a row that was just reserved.
NEW = 0


class _NotReserved(Exception):
    """Another transaction has the key of the call that comes after a batch."""


def prepared(call: Call) -> str:
    """The call as a batch's row keeps it until it is reserved."""
    identity = call.identity
    return json.dumps(
        {
            "task": call.task,
            "task_id": call.task_id,
            "digest": identity.digest.hex,
            "scope": identity.scope,
            "key_text": identity.key_text,
            "fingerprint": None if identity.fingerprint is None else identity.fingerprint.hex,
            "message": call.message,
        }
    )


def call_of(text: str) -> Call:
    """The call that :func:`prepared` encoded."""
    kept = json.loads(text)
    fingerprint = None if kept["fingerprint"] is None else UUID(kept["fingerprint"])
    identity = Identity(UUID(kept["digest"]), kept["scope"], kept["key_text"], fingerprint)
    return Call(identity, kept["task"], kept["task_id"], kept["message"])


def follow(store: LedgerStore, digests: Collection[UUID]) -> list[Call]:
    """Let the chunks of these keys be where their keys are, and their batches where their chunks are.

    For after the commit that ends a chunk, and after each decision about one: of several that end at a time
    the last to commit sees all of them ended. Returns the calls to be published after the commit of what is
    open. Raises what the database raises; the sweeper then does it.
    """
    return [call for batch in sorted(store.follow_chunks(digests)) for call in settle(store, batch)]


def follow_one(store: LedgerStore, claim: Claim, batch: UUID, *, is_completed: bool) -> list[Call]:
    """As :func:`follow`, for the attempt that has ended the key of a chunk of this batch."""
    needs_settling = store.end_chunk(claim, batch) if is_completed else None
    if needs_settling is None:
        return follow(store, [claim.digest])
    return _settled(store, batch) if needs_settling else []


def settle(store: LedgerStore, batch: UUID) -> list[Call]:
    """End the batch if its last chunk has ended; its callback is reserved in the same transaction.

    Returns the calls that were reserved, to be published after the commit. Raises what the database raises.
    """
    return _settled(store, batch) if store.needs_settling(batch) else []


def _settled(store: LedgerStore, batch: UUID) -> list[Call]:
    kept = settings().dead_letter_retention
    try:
        with store.together():
            settled = store.settle_batch(batch, kept=kept)
            calls = map(call_of, settled.calls)
            return [call for call in calls if _is_reserved(store, call)]
    except _NotReserved:
        return []  # nothing was settled: the sweeper tries again


def _is_reserved(store: LedgerStore, call: Call) -> bool:
    """Reserve the call; False where its key has a row already, as after a batch of the same key."""
    if store.reserve_new(call, wait=settings().republish_after, sends=0) is not None:
        return True
    entry = store.read(call.identity.digest, task_id=call.task_id)
    if entry is None:
        raise _NotReserved
    facts = call.task, call.identity.key_text, entry.state.name, entry.task_id
    logger.warning("%s %r: its batch cannot call it, because the key is %s as call %s", *facts)
    return False


def publish(app: Celery, store: LedgerStore, calls: Iterable[Call], *, send: bool = True) -> None:
    """Send these reserved calls; what is not sent, or is not to be, is due for the sweeper. Never raises.

    To be called after the commit.
    """
    for call in calls:
        if not (send and relay.send(app, Message.decode(call.task, call.message or ""))):
            try:
                store.send_failed(call.identity.digest, token=NEW)
            except DatabaseError:
                logger.warning("%s: the sweeper sends the call only after REPUBLISH_AFTER", call.task)
