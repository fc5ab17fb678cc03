"""Redrives of many dead letters, as a person asks for them: begin, stop, and what has failed again."""

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

#: Keys a second that a rate may be.
FASTEST = 1_000_000
#: Running redrives that one look reads: not more than a person would.
SHOWN = 20


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
