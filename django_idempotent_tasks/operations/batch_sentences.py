"""Says in words what happens next to a batch, for every door. Translated when a door asks."""

from __future__ import annotations

from datetime import datetime

from django.utils.translation import gettext as _

from ..models import Batch, BatchState
from .text import span


def what_next(batch: Batch, now: datetime) -> str:
    """Who moves the batch on from its state, and when, in one or two sentences."""
    match BatchState(batch.state):
        case BatchState.SUBMITTING:
            return _(
                "A process submits its records; workers run the chunks that are in already. If that process"
                " has died, submit the same upload again: it goes on."
            )
        case BatchState.RUNNING:
            return _("Its chunks run, or wait for workers. %(end)s") % {"end": _end(batch)}
        case BatchState.NEEDS_ATTENTION:
            words = _("Some chunks are dead letters: redrive or discard them. The others go on. %(end)s")
            return words % {"end": _end(batch)}
        case BatchState.CANCELLED if batch.due_at is None:
            return _("It was cancelled; chunks that still run go on to their end.")
        case BatchState.CANCELLED:
            return _("It was cancelled. %(deleted)s") % {"deleted": _deleted(batch, now)}
        case BatchState.FINISHED:
            return _("All its chunks have ended. %(deleted)s") % {"deleted": _deleted(batch, now)}


def _end(batch: Batch) -> str:
    if batch.callback is None or batch.called_at is not None:
        return _("It is finished when all of them have ended.")
    return _("When all of them have ended, its callback is called.")


def _deleted(batch: Batch, now: datetime) -> str:
    left = 0.0 if batch.due_at is None else (batch.due_at - now).total_seconds()
    words = _("The sweeper deletes it in %(span)s.") if left >= 1 else _("The sweeper deletes it now.")
    return words % {"span": span(left)}
