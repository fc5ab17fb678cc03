"""``idem failed-jobs rerun``: sends the call of a failed plain task again."""

from __future__ import annotations

from ...identity.text import harmless
from ...ledger.stores import LedgerStore
from ...models import FailedJob
from ...operations.reruns import Rerun, rerun
from ...operations.tasks import known_task, unknown_task
from ...states import State
from ..cli.project import project_app
from ..cli.reason import reason_of, who
from ..cli.report import FINDINGS, FINE, Options, Report, Say
from .list import find, no_job, state_of, what_next


def rerun_job(store: LedgerStore, options: Options, _say: Say) -> Report:
    """Rerun a plain task's last attempt, once; with ``--again`` once more."""
    reason, job = reason_of(options), find(store, options["number"])
    if job is None:
        return no_job()
    problem = _problem(job, again=bool(options.get("again")))
    if problem:
        return _report(job, "not possible", [problem], FINDINGS)
    app = project_app()
    is_known = job.task in app.tasks or known_task(job.task) is not None
    remarks = [] if is_known else [unknown_task()]
    if not options["yes"]:
        words = f"Dry run: would send {harmless(job.task)} again, under a new task id: no key guards it."
        return _report(job, "dry run", [words, *remarks, "Say --yes to do it."])
    outcome = rerun(app, store, job, by=who(), reason=reason)
    if outcome.problem:
        return _report(job, "not sent", [f"Not sent: {harmless(outcome.problem)}."], FINDINGS)
    return _report(job, "sent", [f"Sent as {outcome.task_id}.", *remarks], sent=outcome)


def _problem(job: FailedJob, *, again: bool) -> str:
    if job.digest is not None:
        key = job.digest
        return (
            f"This task has a key: 'idem dead-letters redrive {key}' runs it again where it ended as a dead"
            f" letter; 'idem keys show {key}' tells."
        )
    if job.state == State.RETRY or (job.state == State.PENDING and not again):
        return what_next(job)
    return ""


def _report(
    job: FailedJob, outcome: str, lines: list[str], code: int = FINE, *, sent: Rerun | None = None
) -> Report:
    facts = {
        "id": job.pk,
        "outcome": outcome,
        "state": state_of(job),
        "task_id": None if sent is None else sent.task_id,
        "text": " ".join(lines),
    }
    return Report(facts, lines, code)
