"""Makes a worker forget the revoke of a task id that a person has redriven since.

Celery's worker remembers revoked ids for hours, tells new workers of them, and drops every message of such
an id. What it remembers has no time that another process could compare; the ledger has a token for that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from celery.worker.state import REVOKES_MAX, revoked

from ..ledger.stores import LedgerStore
from ..ledger.stores.connection import read_on
from ..ledger.values import Entry
from ..messages.header import carried
from ..messages.turns import redrive_of
from ..models import IdempotencyKey
from ..states import State

#: Task ids that were revoked while they ran, with the token of that run: a later redrive is not revoked.
_running: dict[str, int] = {}


def note_running(store: LedgerStore, task_ids: Sequence[str]) -> None:
    """Note which of these revoked calls run, and their tokens; waiting calls are cancelled by then."""
    runs = IdempotencyKey.objects.filter(task_id__in=task_ids, state=State.RUNNING)
    tokens: dict[str, int] = {}
    for row in read_on(store, runs, ("task_id", "token")):
        tokens[row.task_id] = max(row.token, tokens.get(row.task_id, 0))
    for task_id in task_ids:
        _running.pop(task_id, None)
    _running.update(tokens)
    while len(_running) > REVOKES_MAX:
        del _running[next(iter(_running))]


def forget_for(task_id: str, message: Any, *, task: str) -> None:
    """Forget the revoke of a task id if the message's headers say that a later redrive has sent it.

    A revoke that came after the redrive stands: it has cancelled the row, or is noted here.
    """
    if task_id not in revoked:  # as nearly always: no header is read then
        return
    redrive = _redrive_of(message, task=task, task_id=task_id)
    if redrive and _running.get(task_id, 0) < redrive:
        revoked.discard(task_id)


def has_moved_on(entry: Entry, request: Any, *, task: str) -> bool:
    """Whether the call of a dropped copy runs elsewhere, or was redriven after that copy was sent."""
    sent = _redrive_of(vars(request), task=task, task_id=request.id)
    is_redriven = entry.turn is not None and entry.turn[0] > sent
    return is_redriven or (entry.state is State.RUNNING and not entry.is_open)


def _redrive_of(message: Any, *, task: str, task_id: str) -> int:
    own = carried(message, task_name=task, task_id=task_id)
    return redrive_of(own and own.header)
