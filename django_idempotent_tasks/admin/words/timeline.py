"""Lists what happened to a key in order: accepted, each failed attempt, and its present state."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.utils.translation import gettext as _

from ...ledger.moments import exact
from ...ledger.rules import SHADOW
from ...models import DuplicateAttempt, FailedJob, IdempotencyKey
from ...operations.text import span
from ...operations.workers import holder, worker_words
from ...states import FINISHED, State
from .cells import took
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
    further: str = ""


def failures(row: IdempotencyKey) -> list[FailedJob]:
    """The last failed attempts of a key, newest first, without their long columns."""
    jobs = FailedJob.objects.using(alias()).filter(digest=row.digest)
    return list(jobs.defer("description", "traceback", "message").order_by("-id")[:SHOWN])


def timeline(row: IdempotencyKey, jobs: list[FailedJob], now: datetime) -> list[Event]:
    """The events, oldest first."""
    events = [_event(row.created_at, _("accepted as call %(id)s") % {"id": shown(row.task_id)}, now)]
    events += _failures(jobs, row, now)
    if row.state == State.RUNNING and row.started_at is not None:
        words = _("attempt %(number)s begun by %(holder)s")
        facts = {"number": row.attempts, "holder": holder(row, now).who}
        events.append(_event(row.started_at, words % facts, now))
    if row.state in FINISHED and row.finished_at is not None:
        # The record of the last attempt is written a moment after the end of the key.
        end = max([row.finished_at, *(job.at for job in jobs)])
        events.append(_event(end, state_word(row.state), now, further=_success(row)))
    if row.discarded_at is not None:
        events.append(_event(row.discarded_at, _("discarded"), now))
    return sorted(events, key=lambda event: event.moment)


def _success(row: IdempotencyKey) -> str:
    """How long the attempt ran that succeeded; an atomic one leaves no time of its beginning."""
    if row.state != State.SUCCEEDED or not row.lease_seconds or None in {row.started_at, row.finished_at}:
        return ""
    words = _("attempt %(number)s ran for %(took)s")
    return words % {"number": row.attempts, "took": took(row.started_at, row.finished_at)}  # type: ignore[arg-type]


def _failures(jobs: list[FailedJob], row: IdempotencyKey | None, now: datetime) -> list[Event]:
    """The failed attempts, oldest first, each with the time at which the next one began or may begin."""
    oldest = list(reversed(jobs))
    begun: list[datetime | None] = [job.started_at for job in oldest[1:]]
    if row is not None and oldest:
        is_later = row.started_at is not None and exact(row.started_at) > exact(oldest[-1].at)
        begun.append(row.open_at if row.state == State.RETRY else row.started_at if is_later else None)
    begun += [None] * (len(oldest) - len(begun))
    return [_failed(job, after, now) for job, after in zip(oldest, begun, strict=True)]


def refused(row: IdempotencyKey, now: datetime) -> list[dict[str, str]]:
    """The last refused duplicates of a key."""
    rows = DuplicateAttempt.objects.using(alias()).filter(digest=row.digest).order_by("-id")[:SHOWN]
    return [
        {
            "when": ago(each.at, now),
            "task_id": shown(each.task_id),
            "place": _("shadow mode: it ran") if each.place == SHADOW else shown(each.place),
            "reason": shown(each.reason),
        }
        for each in rows
    ]


def _event(moment: datetime, text: str, now: datetime, *, further: str = "") -> Event:
    return Event(moment, f"{at(moment)} ({ago(moment, now)})", text, further=further)


def _failed(job: FailedJob, after: datetime | None, now: datetime) -> Event:
    words = _("attempt %(number)s failed on %(worker)s: %(error)s")
    text = words % {"number": job.attempt, "worker": cell(worker_words(job.worker)), "error": cell(job.error)}
    further = []
    if job.started_at is not None:
        further.append(_("It ran for %(took)s.") % {"took": took(job.started_at, job.at)})
    if after is not None:
        wait = span(round((exact(after) - exact(job.at)).total_seconds()))
        words = (
            _("Retried %(wait)s later.") if after <= now else _("To be retried %(wait)s later, at %(at)s.")
        )
        further.append(words % {"wait": wait, "at": at(after)})
    when = f"{at(job.at)} ({ago(job.at, now)})"
    return Event(job.at, when, text, job.pk, is_failure=True, further=" ".join(further))


def attempts_beside(job: FailedJob, now: datetime) -> list[Event]:
    """The failed attempts of the same key, or of the same plain call, oldest first."""
    jobs = FailedJob.objects.using(alias())
    same = (
        jobs.filter(task_id=job.task_id, digest=None)
        if job.digest is None
        else jobs.filter(digest=job.digest)
    )
    found = same.defer("description", "traceback", "message").order_by("-id")[:SHOWN]
    return _failures(list(found), None, now)
