"""Redrives of many dead letters, as a person asks for them: begin, stop, and what has failed again."""

from __future__ import annotations

import logging
from dataclasses import replace

from django.db.models import QuerySet
from django.utils.translation import override

from ..identity.text import harmless
from ..ledger.moments import database_now
from ..ledger.stores import get_store
from ..models import DeadLetter, RedriveOperation
from .selection import Selection

logger = logging.getLogger("django_idempotent_tasks")

#: Keys a second that a rate may be.
FASTEST = 1_000_000


def begin(
    selection: Selection, *, by: str, reason: str, rate: int | None = None, alias: str | None = None
) -> RedriveOperation:
    """Write the operation; the sweeper carries it out at most ``rate`` keys a second.

    It takes what has ended by now: what fails again is not taken once more. Raises ValueError for an
    empty reason or a rate that is none from 1 to ``FASTEST``.
    """
    if not reason.strip():
        msg = "Give a reason: it is kept with the operation."
        raise ValueError(msg)
    if rate is not None and not 1 <= rate <= FASTEST:
        msg = f"The rate must be 1 to {FASTEST:,} keys a second, not {rate}; None is as fast as it goes."
        raise ValueError(msg)
    store = get_store(alias)
    using = store.connection.alias
    total = selection.query(using).count()
    operation = RedriveOperation(
        created_at=database_now(store),
        created_by=by[:150],
        reason=reason.strip()[:500],
        selection=selection.encode(),
        rate=rate,
        total=total,
    )
    operation.save(using=using, force_insert=True)
    with override(None):  # a log has one language, whoever asks
        words = selection.words()
    told = harmless(reason.strip())
    logger.warning("%s redrives %d dead letters (%s): %s", harmless(by), total, harmless(words), told)
    return operation


def stop(operation: RedriveOperation, *, by: str, alias: str | None = None) -> bool:
    """Stop it where it is; what was redriven stays so. False when it had ended."""
    return get_store(alias).stop_redrive(operation.pk, by=by[:150])


def again(operation: RedriveOperation, *, alias: str) -> QuerySet[DeadLetter]:
    """What fits its selection, is older than it, and has ended as a dead letter since it began.

    Most of it was redriven and has failed again; some was under way then. Raises ValueError for a
    selection that this version cannot read.
    """
    selection = replace(Selection.decode(operation.selection), ended_after=None, ended_before=None)
    begun = operation.created_at
    return selection.query(alias).filter(created_at__lt=begun, finished_at__gt=begun)
