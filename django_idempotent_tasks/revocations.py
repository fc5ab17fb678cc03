"""Which revokes a worker's own memory may speak for: a person's later redrive is not one of them.

Celery's worker remembers revoked ids for hours, tells new workers of them, and drops every message of such
an id. What it remembers has no time that another process could compare. The ledger has: a token.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from celery.worker.state import REVOKES_MAX, revoked

from .message import HEADER
from .models import IdempotencyKey
from .redrives import read_on
from .states import State
from .stores import LedgerStore
from .turns import redrive_of

#: Ids that were revoked while they ran, with the token of the run: what was redriven later is not meant.
_running: dict[str, int] = {}


def heard(store: LedgerStore, task_id: str) -> None:
    """Note which run of a call a revoke has met; one that waited is cancelled in the ledger by then."""
    runs = IdempotencyKey.objects.filter(task_id=task_id, state=State.RUNNING)
    tokens = [row.token for row in read_on(store, runs, ("token",))]
    _running.pop(task_id, None)
    if tokens:
        _running[task_id] = max(tokens)
        while len(_running) > REVOKES_MAX:
            del _running[next(iter(_running))]


def forget_for(task_id: str, headers: Any) -> None:
    """Forget the revoke of an id whose message, with these headers, a later redrive has sent.

    A revoke that came after the redrive has cancelled the row, or is noted here: that one stands.
    """
    redrive = _redrive_of(headers)
    if redrive and task_id in revoked and _running.get(task_id, 0) < redrive:
        revoked.discard(task_id)


def is_beyond(store: LedgerStore, digest: UUID, request: Any) -> bool:
    """Whether the key of a dropped copy runs, or was redriven after that copy was sent."""
    entry = store.read(digest, task_id=request.id)
    if entry is None:
        return False
    is_redriven = entry.turn is not None and entry.turn[0] > _redrive_of(request.headers)
    return is_redriven or (entry.state is State.RUNNING and not entry.is_open)


def _redrive_of(headers: Any) -> int:
    return redrive_of((headers or {}).get(HEADER))
