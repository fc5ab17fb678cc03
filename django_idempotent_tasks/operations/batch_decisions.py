"""Carries out what a person decides about a batch: cancel it, or redrive what failed; logs who and why."""

from __future__ import annotations

import logging
from uuid import UUID

from django.utils.translation import gettext as _

from ..conf import settings
from ..identity.text import harmless
from ..ledger.batches import follow
from ..ledger.stores import LedgerStore
from ..ledger.values import Call
from ..models import Batch, BatchState
from .batch_following import after_commit
from .dead_letters import DONE, Decision

logger = logging.getLogger("django_idempotent_tasks")

#: Chunks whose calls one statement cancels.
BITE = 500


def cancel(store: LedgerStore, batch: Batch, *, by: str, reason: str) -> Decision:
    """Cancel a batch: chunks that wait end as CANCELLED after the commit, chunks that run go on to their end.

    A submission that goes on stops, and no callback is sent. Where the process dies before all is cancelled,
    the sweeper goes on. Raises TypeError for ``by`` or ``reason`` that is no text.
    """
    who, why = said(by, reason)
    if not store.cancel_batch(batch.id, by=by[:150], reason=reason.strip()[:500]):
        return moved_on(store, batch)
    facts = (who, batch.id, harmless(batch.task), why)
    logger.warning("%s cancelled batch %s of %s: %s", *facts)
    after_commit(store, lambda: _cancel_waiting(store, batch.id))
    return DONE


def said(by: str, reason: str) -> tuple[str, str]:
    """Who decides and why, as the log has it; asked for before anything changes. Raises TypeError."""
    for name, value in (("by", by), ("reason", reason)):
        if not isinstance(value, str):
            raise TypeError(f"{name} is a text, not {value!r}. Leave it out where there is none to give.")
    return harmless(by), harmless(reason.strip() or "no reason given")


def _cancel_waiting(store: LedgerStore, batch: UUID) -> list[Call]:
    """Cancel the calls of the batch's chunks that wait to run."""
    after, calls, window = -1, list[Call](), settings().redelivery_window
    while chunks := store.open_chunks(batch, after=after, bite=BITE):
        store.cancel_waiting([each.task_id for each in chunks], window=window)
        calls += follow(store, [each.digest for each in chunks])
        after = chunks[-1].place
    return calls


def moved_on(store: LedgerStore, batch: Batch) -> Decision:
    """The refusal where a batch has ended, or was decided about since it was read: it says what it is now."""
    row = Batch.objects.using(store.connection.alias).filter(pk=batch.id).first()
    if row is None:
        return Decision(done=False, problem=_("the batch is gone: the sweeper pruned it meanwhile"))
    words = _("the batch has moved on and is %(state)s now: look again")
    return Decision(done=False, problem=words % {"state": BatchState(row.state).label})
