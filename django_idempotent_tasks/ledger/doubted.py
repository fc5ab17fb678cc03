"""Keys that came into doubt without a word of their owner: told of as dead letters, as every other is."""

from __future__ import annotations

from uuid import UUID

from .. import signals
from ..identity.key import Identity
from ..models import IdempotencyKey
from ..signals import announce
from ..states import Category, Reason, State
from .encoding import error_parts
from .failures import storable_text
from .stores import LedgerStore
from .stores.connection import read_on
from .values import Call, Failure

_ROW = ("digest", "task", "task_id", "scope", "key_text", "signature", "result")


def release(store: LedgerStore, row: IdempotencyKey) -> bool:
    """RUNNING to RETRY, due now, as ``row`` was read; REVIEW, and told of, inside ``external()``.

    False when the row has moved on.
    """
    if not store.release(row.digest, token=row.token):
        return False
    tell(store, row.digest, worker=row.owner or "", using=store.connection.alias)
    return True


def tell(store: LedgerStore, digest: UUID, *, worker: str = "", using: str | None = None) -> None:
    """Announce a key that has just moved to REVIEW because its owner is gone; nothing of another one."""
    found = IdempotencyKey.objects.filter(digest=digest, state=State.REVIEW, reason=Reason.OWNER_DIED)
    for key in read_on(store, found, _ROW):
        call = Call(Identity(key.digest, key.scope, key.key_text, None), key.task, key.task_id, None)
        error, description = error_parts(key.result)
        failure = Failure(
            error, description, "", key.signature or "", Category.MANUAL_REVIEW, storable_text(worker)
        )
        announce(
            signals.dead_lettered,
            sender=key.task,
            using=using,
            call=call,
            state=State.REVIEW,
            failure=failure,
        )
