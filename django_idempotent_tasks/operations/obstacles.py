"""Says what stands in the way of a live key: no sweeper, or no worker that would take its call."""

from __future__ import annotations

from datetime import datetime

from django.utils.translation import gettext as _

from ..beat.overview import leads
from ..conf import settings
from ..identity.text import harmless
from ..models import SWEEPER, IdempotencyKey, Leader
from ..states import State
from .waiting import Workforce, is_sent_only, queue_of_key, workforce


def obstacles(row: IdempotencyKey, now: datetime) -> list[str]:
    """A sentence for each thing that keeps a live key from moving on; none for any other key.

    ``now`` is the database's time at which the row was read.
    """
    if row.state not in {State.PENDING, State.RETRY, State.RUNNING}:
        return []
    alias = row._state.db or settings().database  # noqa: SLF001  Django's own, for this
    is_led = leads(Leader.objects.using(alias).filter(name=SWEEPER).first(), now)
    found = [] if is_led else [_unswept(row, now)]
    if row.state != State.RUNNING and not is_sent_only(row):
        found.append(_untaken(row, workforce(alias, now)))
    return [each for each in found if each]


def unknown_to_workers(task: str) -> str:
    """That no living worker knows a task, and the remedy."""
    words = _("No worker knows the task %(task)s: deploy it, or redrive what fails under its new name.")
    return words % {"task": harmless(task)}


def _unswept(row: IdempotencyKey, now: datetime) -> str:
    """What does not happen to a key without a sweeper."""
    if row.state == State.RUNNING and row.open_at is not None and row.open_at > now:
        return _("No sweeper runs: should the holder fall silent, nothing will move this key.")
    if row.state == State.PENDING and row.sends >= 0:
        return _("No sweeper runs: should the call's message be lost, nothing will move this key.")
    return _("No sweeper runs: nothing will move this key.")


def _untaken(row: IdempotencyKey, force: Workforce) -> str:
    """Why no worker takes the key's call."""
    if not force.is_whole:
        return ""
    if not force.lives:
        return _("No worker lives: nothing takes this call.")
    if not force.knows(row.task):
        return unknown_to_workers(row.task)
    queue = queue_of_key(row)
    if queue is None or force.consumes(queue):
        return ""
    return _("No living worker consumes its queue %(queue)s: start one with -Q.") % {"queue": harmless(queue)}
