"""Lists what happened to a key in order: accepted, each failed attempt, and its present state."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.utils.translation import gettext as _

from ...models import DuplicateAttempt, FailedJob, IdempotencyKey
from ...states import FINISHED, State
from .ledger import alias
from .wording import ago, at, cell, shown, state_word

#: How many failed attempts, and how many duplicates, a key's page shows.
SHOWN = 50


@dataclass(frozen=True, slots=True)
class Event:
    """One line of a timeline; ``job`` is the id of the failed job behind it."""

    moment: datetime
    when: str
    text: str
    job: int | None = None
    is_failure: bool = False


def failures(row: IdempotencyKey) -> list[FailedJob]:
    """The last failed attempts of a key, newest first, without their long columns."""
    jobs = FailedJob.objects.using(alias()).filter(digest=row.digest)
    return list(jobs.defer("description", "traceback", "message").order_by("-id")[:SHOWN])


def timeline(row: IdempotencyKey, jobs: list[FailedJob], now: datetime) -> list[Event]:
    """The events, oldest first."""
    events = [_event(row.created_at, _("accepted as call %(id)s") % {"id": shown(row.task_id)}, now)]
    events += [_failed(job, now) for job in jobs]
    if row.state == State.RUNNING and row.started_at is not None:
        words = _("attempt %(number)s begun by %(owner)s")
        events.append(
            _event(row.started_at, words % {"number": row.attempts, "owner": shown(row.owner)}, now)
        )
    if row.state in FINISHED and row.finished_at is not None:
        # The record of the last attempt is written a moment after the end of the key.
        end = max([row.finished_at, *(job.at for job in jobs)])
        events.append(_event(end, state_word(row.state), now))
    if row.discarded_at is not None:
        events.append(_event(row.discarded_at, _("discarded"), now))
    return sorted(events, key=lambda event: event.moment)


def refused(row: IdempotencyKey, now: datetime) -> list[dict[str, str]]:
    """The last refused duplicates of a key."""
    rows = DuplicateAttempt.objects.using(alias()).filter(digest=row.digest).order_by("-id")[:SHOWN]
    return [
        {
            "when": ago(each.at, now),
            "task_id": shown(each.task_id),
            "place": shown(each.place),
            "reason": shown(each.reason),
        }
        for each in rows
    ]


def _event(moment: datetime, text: str, now: datetime) -> Event:
    return Event(moment, f"{at(moment)} ({ago(moment, now)})", text)


def _failed(job: FailedJob, now: datetime) -> Event:
    words = _("attempt %(number)s failed on %(worker)s: %(error)s")
    text = words % {"number": job.attempt, "worker": cell(job.worker), "error": cell(job.error)}
    return Event(job.at, f"{at(job.at)} ({ago(job.at, now)})", text, job.pk, is_failure=True)


def attempts_beside(job: FailedJob, now: datetime) -> list[Event]:
    """The failed attempts of the same key, or of the same plain call, oldest first."""
    jobs = FailedJob.objects.using(alias())
    same = (
        jobs.filter(task_id=job.task_id, digest=None)
        if job.digest is None
        else jobs.filter(digest=job.digest)
    )
    found = same.defer("description", "traceback", "message").order_by("-id")[:SHOWN]
    return [_failed(each, now) for each in reversed(list(found))]
