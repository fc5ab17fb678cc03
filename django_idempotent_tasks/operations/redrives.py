"""Begins, stops and counts redrive operations: each redrives many dead letters at a person's wish."""

from __future__ import annotations

import logging
from dataclasses import replace

from django.utils.translation import gettext as _
from django.utils.translation import override

from ..identity.text import harmless
from ..ledger.moments import database_now
from ..ledger.stores import get_store
from ..models import OperationState, RedriveOperation
from .counts import CAP, Count, capped
from .selection import Selection

logger = logging.getLogger("django_idempotent_tasks")

#: The highest rate, in keys a second.
FASTEST = 1_000_000
#: Running redrives that one look reads: not more than a person would.
SHOWN = 20


def begin(
    selection: Selection, *, by: str, reason: str, rate: int | None = None, alias: str | None = None
) -> RedriveOperation:
    """Write an operation, which the sweeper carries out at ``rate`` keys a second at most.

    The operation redrives keys that have ended by now, so none twice. Raises ValueError for an empty
    reason, or a rate that is not between 1 and ``FASTEST``.
    """
    if not reason.strip():
        msg = "Give a reason: it is kept with the operation."
        raise ValueError(msg)
    if rate is not None and not 1 <= rate <= FASTEST:
        msg = f"The rate must be 1 to {FASTEST:,} keys a second, not {rate}; None is without a limit."
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
    with override(None):  # log lines are in one language, whatever the asking person reads
        words = selection.words()
    why = harmless(reason.strip())
    logger.warning("%s redrives %d dead letters (%s): %s", harmless(by), total, harmless(words), why)
    return operation


def stop(operation: RedriveOperation, *, by: str, reason: str = "", alias: str | None = None) -> bool:
    """Stop an operation: what it has redriven stays redriven. False when it had ended."""
    stopped = get_store(alias).stop_redrive(operation.pk, by=by[:150])
    if stopped:
        why = harmless(reason or "no reason given")
        logger.warning("%s stopped redrive %d: %s", harmless(by), operation.pk, why)
    return stopped


def running(alias: str) -> list[RedriveOperation]:
    """The operations that the sweeper carries out now, the oldest first; ``SHOWN`` at most."""
    found = RedriveOperation.objects.using(alias).filter(state=OperationState.RUNNING)
    return list(found.order_by("id")[:SHOWN])


def words_of(operation: RedriveOperation) -> str:
    """Which dead letters an operation redrives, in words."""
    try:
        return Selection.decode(operation.selection).words()
    except (ValueError, TypeError):
        return _("not readable")


def dead_again(operation: RedriveOperation, *, alias: str) -> Count | None:
    """How many keys older than the operation fit its selection and ended as dead letters since it began.

    Most of these were redriven and have failed again; some were running when the operation began. None:
    this version cannot read the selection.
    """
    try:
        selection = Selection.decode(operation.selection)
    except ValueError:
        return None
    begun = operation.created_at
    whenever = replace(selection, ended_after=None, ended_before=None)
    found = whenever.query(alias).filter(created_at__lt=begun, finished_at__gt=begun)
    return capped(found.order_by().values("pk")[: CAP + 1].count())
