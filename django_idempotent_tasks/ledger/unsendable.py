"""Messages that can never be sent: they end as dead letters, so that somebody hears of them."""

from __future__ import annotations

from .. import signals
from ..conf import settings
from ..identity.key import Identity
from ..models import IdempotencyKey
from ..signals import announce
from ..states import Category, State
from .failures import failure_of
from .stores import LedgerStore
from .stores.connection import read_on
from .values import Call, Due

#: So often a message is looked at that cannot be read or sent, each time after twice as long.
LOOKS = 6

_ROW = ("digest", "task", "task_id", "scope", "key_text")


def give_up(store: LedgerStore, row: Due, error: Exception) -> None:
    """FAILED, with why: a person sends the call again, or discards it."""
    failure = failure_of(error, task=row.task, category=Category.FATAL)
    found = IdempotencyKey.objects.filter(digest=row.digest, token=row.token)
    for key in read_on(store, found, _ROW):
        if store.fail_unknown(
            row.digest,
            task_id=key.task_id,
            sends=LOOKS - 1,
            failure=failure,
            retention=settings().dead_letter_retention,
        ):
            identity = Identity(key.digest, key.scope, key.key_text, None)
            call = Call(identity, key.task, key.task_id, None)
            announce(
                signals.dead_lettered,
                sender=key.task,
                using=None,
                call=call,
                state=State.FAILED,
                failure=failure,
            )
