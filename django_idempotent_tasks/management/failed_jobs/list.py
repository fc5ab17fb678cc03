"""``idem failed-jobs list`` and ``show``: prints failed attempts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.db.models import Max, QuerySet

from ...identity.text import harmless
from ...ledger.moments import database_now
from ...ledger.stores import LedgerStore
from ...models import FailedJob
from ...operations.redaction import call_of, call_text
from ...operations.search import WINDOW
from ...operations.text import SHOWN, category_name, since, table
from ...operations.workers import worker_words
from ...states import State
from ..cli.chosen import moment
from ..cli.report import FINDINGS, Options, Report, Say

_EXACT = ("task", "scope", "signature", "category", "state", "task_id")
#: Filters that an index serves.
_INDEXED = ("signature", "task_id")


def list_jobs(store: LedgerStore, options: Options, _say: Say) -> Report:
    """List the newest failed attempts that fit the filters."""
    now, limit = database_now(store), options["limit"]
    found = _filtered(store.connection.alias, options, now).defer("traceback", "message")
    rows = list(found.order_by("-id")[: limit + 1])
    more, rows = len(rows) > limit, rows[:limit]
    facts = {"failed_jobs": [job_facts(job) for job in rows], "more": more}
    if not rows:
        return Report(facts, ["No failed jobs."])
    return Report(
        facts, [*job_table(rows, now), *(["There are more; --limit N shows them."] if more else [])]
    )


def _filtered(alias: str, options: Options, now: datetime) -> QuerySet[FailedJob]:
    jobs = FailedJob.objects.using(alias)
    given = {name: value for name in _EXACT if (value := options.get(name)) is not None}
    times = {"at__gte": moment(options.get("since"), now), "at__lte": moment(options.get("until"), now)}
    found = jobs.filter(**given, **{name: value for name, value in times.items() if value is not None})
    if options.get("plain"):
        found = found.filter(digest__isnull=True)
    if given.keys().isdisjoint(_INDEXED):
        newest = jobs.aggregate(newest=Max("id"))["newest"] or 0
        found = found.filter(id__gt=newest - WINDOW)
    return found


def show_job(store: LedgerStore, options: Options, _say: Say) -> Report:
    """Show one failed attempt; its arguments and its traceback only when asked for."""
    job = find(store, options["number"])
    if job is None:
        return no_job()
    now = database_now(store)
    facts: dict[str, Any] = job_facts(job)
    lines = [
        f"{name.replace('_', ' ')}: {harmless(value)}" for name, value in facts.items() if value is not None
    ]
    lines.append(f"ended: {since(job.at, now)} ago")
    if options.get("payload"):
        facts["message"] = call_of(job.task, job.message)
        text = call_text(job.task, job.message)
        lines += ["message:", *(f"  {harmless(line)}" for line in text.splitlines())]
    if options.get("with_traceback"):
        facts["traceback"] = job.traceback
        lines += traceback_lines(job.traceback)
    return Report(facts, [*lines, f"next: {what_next(job)}"])


def what_next(job: FailedJob) -> str:
    """What an operator can do about a failed attempt."""
    if job.digest is not None:
        key = job.digest
        return f"The task has a key: see 'idem dead-letters show {key}', or 'idem keys show {key}'."
    if job.state == State.PENDING:
        return f"This job was rerun; 'idem failed-jobs rerun {job.pk} --again' sends its call once more."
    if job.state == State.RETRY:
        return "Celery retried the call by itself: rerun its last attempt instead."
    return f"'idem failed-jobs rerun {job.pk} --reason TEXT --yes' sends its call again."


def find(store: LedgerStore, number: int) -> FailedJob | None:
    """The failed job of an id."""
    return FailedJob.objects.using(store.connection.alias).filter(pk=number).first()


def no_job() -> Report:
    """The report where no failed job has the id (any more)."""
    line = "There is no such failed job; 'idem failed-jobs list' shows the newest."
    return Report({"failed_job": None}, [line], FINDINGS)


def job_facts(job: FailedJob) -> dict[str, object]:
    """The facts of one failed attempt, without its arguments and its traceback."""
    return {
        "id": job.pk,
        "at": job.at,
        "digest": job.digest,
        "attempt": job.attempt,
        "state": state_of(job),
        "category": category_name(job.category),
        "signature": job.signature,
        "task": job.task,
        "scope": job.scope,
        "key": job.key_text,
        "task_id": job.task_id,
        "worker": worker_words(job.worker),
        "error": job.error,
        "description": job.description,
    }


def state_of(job: FailedJob) -> str:
    """The state that the attempt led to; a plain task's job that was rerun is ``rerun``."""
    is_rerun = job.digest is None and job.state == State.PENDING
    return "rerun" if is_rerun else State(job.state).name.lower()


def job_table(jobs: Sequence[FailedJob], now: datetime) -> list[str]:
    """The failed attempts as a table."""
    head = ("id", "ago", "task", "attempt", "went to", "category", "signature", "worker", "error")
    return table([head, *(_line(job, now) for job in jobs)])


def _line(job: FailedJob, now: datetime) -> tuple[object, ...]:
    error = f"{job.error}: {job.description}"[:SHOWN]
    went = (job.task, job.attempt, state_of(job), category_name(job.category) or "-")
    return (job.pk, since(job.at, now), *went, job.signature, worker_words(job.worker), error)


def traceback_lines(trace: str | None) -> list[str]:
    """The traceback as lines for a terminal."""
    text = trace or "none is recorded"
    return ["traceback:", *(f"  {harmless(line)}" for line in text.splitlines())]
