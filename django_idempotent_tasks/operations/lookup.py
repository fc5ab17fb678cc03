"""Finds the row of the key that a call would use: ``get_key()``."""

from __future__ import annotations

from typing import Any

from ..identity.key import stated_digest
from ..identity.rules import UNSET
from ..ledger import rows
from ..models import IdempotencyKey


def get_key(
    task: Any,
    args: Any = (),
    kwargs: Any = None,
    *,
    idempotency_key: object = UNSET,
    scope: object = UNSET,
) -> IdempotencyKey | None:
    """The row of the key that a call of ``task`` would use; None when there is none.

    Give the call's arguments, or ``idempotency_key`` (and ``scope``) as they were given per call.
    Raises :class:`InvalidKey` as sending does.
    """
    if idempotency_key is not UNSET and not args and not kwargs:
        stated = None if scope is UNSET else scope
        digest = stated_digest(task.name, idempotency_key=idempotency_key, scope=stated)
    else:
        identity = task.idempotency_identity(args, kwargs, idempotency_key=idempotency_key, scope=scope)
        digest = identity.digest
    return rows.of_key(digest)
