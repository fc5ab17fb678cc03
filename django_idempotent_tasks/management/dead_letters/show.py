"""``idem dead-letters show``: prints one dead letter, why it failed, and what each decision would do."""

from __future__ import annotations

from datetime import datetime, timedelta

from ...conf import settings
from ...identity.text import harmless
from ...ledger.moments import database_now
from ...ledger.stores import LedgerStore
from ...models import DEAD, FailedJob, IdempotencyKey
from ...operations import dead_letters
from ...operations.search import by_digest
from ...operations.text import span
from ...states import State
from ..cli.missing import no_key, not_dead
from ..cli.report import Options, Report, Say
from ..failed_jobs.list import job_facts, job_table, traceback_lines
from ..keys.card import card, card_lines

#: How many failed attempts are shown: the last ones.
ATTEMPTS = 20


def show_letter(store: LedgerStore, options: Options, _say: Say) -> Report:
    """Show all facts of a dead letter; its arguments and traceback only when asked for."""
    alias, now = store.connection.alias, database_now(store)
    row = by_digest(alias, options["digest"])
    if row is None:
        return no_key()
    if row.state not in DEAD:
        return not_dead(row)
    facts = card(row, now, payload=bool(options.get("payload")))
    lines = card_lines(facts, row, now)
    jobs = list(FailedJob.objects.using(alias).filter(digest=row.digest).order_by("-id")[:ATTEMPTS])
    said = decisions(row, now)
    facts |= {"attempts_that_failed": [job_facts(job) for job in jobs], "decisions": said}
    lines += ["", *_attempts(jobs, now), "", *(f"{name}: {harmless(words)}" for name, words in said.items())]
    if options.get("with_traceback"):
        trace = jobs[0].traceback if jobs else None
        facts["traceback"] = trace
        lines += ["", *traceback_lines(trace)]
    return Report(facts, lines)


def decisions(row: IdempotencyKey, now: datetime) -> dict[str, str]:
    """What each decision would do, and why it may fail."""
    return {
        "redrive": _redrive(row),
        "discard": _discard(row, now),
        "resolve": (
            "'--done RESULT' ends the key as SUCCEEDED: other calls of the key get your result, no call runs;"
            " '--rerun' is a redrive, '--abandon' a discard."
        ),
    }


def _redrive(row: IdempotencyKey) -> str:
    if dead_letters.redrive_message(row) is None:
        return f"Not possible: {dead_letters.why_unsendable(row)}."
    words = "Runs the call again: key, call and downstream keys stay the same, attempts are counted from 0."
    problem = dead_letters.known_problem(row)
    return words if problem is None else f"{words} The call is likely to fail again: {problem}"


def _discard(row: IdempotencyKey, now: datetime) -> str:
    if row.discarded_at is not None:
        return "This dead letter is discarded already; you can still redrive it."
    keep = timedelta(seconds=settings().dead_letter_retention)
    end = keep if row.state == State.REVIEW or row.due_at is None else row.due_at - now
    return f"Its record stays for {span(end.total_seconds())}; a later call may have the key."


def _attempts(jobs: list[FailedJob], now: datetime) -> list[str]:
    if not jobs:
        return ["No failed attempt is recorded (any more)."]
    return [f"failed attempts (the last {len(jobs)}):", *job_table(jobs, now)]
