"""Builds the tree of sub-commands, each with its options and the function that carries it out."""

from __future__ import annotations

from django.core.management.base import CommandParser

from ..operations.durations import SPANS
from ..operations.pauses import RATE
from ..sweeper.prune import BITE
from .batches.parser import add_batches
from .cli.arguments import Parser, count, duration, listening, rate, seconds, text
from .cli.options import (
    Groups,
    add,
    add_digest,
    add_filters,
    add_noun,
    add_reason,
    add_task_and_scope,
    add_yes,
)
from .dead_letters.parser import add_dead_letters, add_redrives
from .doctor.examine import doctor
from .failed_jobs.parser import add_failed_jobs
from .keys.cancel import cancel_keys
from .keys.release import release_key
from .keys.show import list_keys, show_key
from .upkeep.beat import beat_health, run_beat
from .upkeep.health import probe_relay, probe_sweeper, probe_worker
from .upkeep.metrics import metrics
from .upkeep.pauses import list_pauses, pause_task, resume_task
from .upkeep.prune import prune
from .upkeep.run_now import run_periodic
from .upkeep.status import status
from .upkeep.sweep import sweep
from .upkeep.tasks import tasks
from .upkeep.workers import show_workers

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


def add_commands(parser: CommandParser) -> None:
    """``idem status``, ``tasks``, ``workers``, ``doctor``, ``sweep``, ``prune``, ``beat``, and nouns."""
    group = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=Parser)
    add(group, "status", status, "keys by state, who sweeps, and what needs a person (then exit code 1)")
    _add_tasks(group)
    add(group, "workers", show_workers, "the workers that live or were seen lately, and what each runs now")
    _add_doctor(group)
    _add_sweep(group)
    _add_prune(group)
    _add_beat(group)
    _add_health(group)
    _add_pauses(group)
    _add_metrics(group)
    _add_keys(add_noun(group, "keys", "list, show, release and cancel keys"))
    add_dead_letters(add_noun(group, "dead-letters", "list, show, export and decide on dead letters"))
    add_redrives(add_noun(group, "redrives", "list, show, follow and stop redrives of many dead letters"))
    add_batches(add_noun(group, "batches", "list, show, redrive and cancel batches of records"))
    add_failed_jobs(add_noun(group, "failed-jobs", "list, show and rerun failed attempts"))


def _add_tasks(group: Groups) -> None:
    words = "each task's runs, failures and duplicates, and how long its runs and waits took"
    parser = add(group, "tasks", tasks, words)
    parser.add_argument("--over", choices=tuple(SPANS), default="day", help="how far back to look (day)")


def _add_doctor(group: Groups) -> None:
    words = "what is wrong with settings, tasks and servers, why it matters, and what to do"
    parser = add(group, "doctor", doctor, words, formats=("text", "json", "sarif"))
    parser.add_argument("--live", action="store_true", help="also ask broker, database, workers and beat")
    parser.add_argument(
        "--fail-level",
        choices=("error", "warning"),
        default="warning",
        help="the least severity that makes the exit code 1 (warning)",
    )
    # A wrong setting is a finding, and keeps the ledger's store from being chosen.
    parser.set_defaults(needs_ledger=False)


def _add_sweep(group: Groups) -> None:
    parser = add(group, "sweep", sweep, "free expired leases and send what is due, until SIGTERM")
    parser.add_argument(
        "--once", action="store_true", help="sweep until nothing is due, whoever leads, then end"
    )


def _add_beat(group: Groups) -> None:
    parser = add(group, "beat", run_beat, "run celery beat: start as many as you like, one leads")
    parser.add_argument("--loglevel", "-l", choices=LEVELS, default="INFO", help="the log level (INFO)")
    parser.add_argument(
        "--enable-remote-control", action="store_true", help="answer 'celery inspect ping' as celerybeat@host"
    )
    # Without a verb the command runs beat itself.
    verbs = parser.add_subparsers(dest="verb", metavar="VERB")
    parser = add(verbs, "run-now", run_periodic, "run a periodic task now, beside its schedule")
    parser.add_argument("name", type=text, metavar="NAME", help="the periodic task's name")
    add_reason(parser)
    add_yes(parser)


def _add_health(group: Groups) -> None:
    subjects = add_noun(group, "health", "for probes: exit code 0 is healthy, 1 is not, 2 could not look")
    _add_worker_health(subjects)
    parser = add(subjects, "sweeper", probe_sweeper, "whether the sweeper is led, and sweeps")
    _add_max_age(parser, "how long ago the last sweep may have ended")
    parser = add(subjects, "relay", probe_relay, "whether the broker answers, and what is not sent")
    _add_max_age(parser, "how long a message may be due and not sent")
    parser = add(subjects, "beat", beat_health, "whether a beat leads, its last tick, and what is overdue")
    _add_max_age(parser, "how late an entry may be")
    parser.add_argument("--leader-only", action="store_true", help="do not look at the entries")


def _add_metrics(group: Groups) -> None:
    parser = add(group, "metrics", metrics, "what Prometheus scrapes, printed once or served")
    parser.add_argument(
        "--serve", type=listening, metavar="ADDRESS:PORT", help="serve them until SIGTERM: 127.0.0.1:9180"
    )


def _add_max_age(parser: Parser, words: str) -> None:
    parser.add_argument("--max-age", type=duration, metavar="AGE", default="60s", help=f"{words} (60s)")


def _add_worker_health(subjects: Groups) -> None:
    words = "whether a worker takes messages from each of its queues, and runs them"
    parser = add(subjects, "worker", probe_worker, words)
    parser.add_argument(
        "--name", type=text, metavar="NAME", help="the worker's name; default: celery@this host"
    )
    parser.add_argument(
        "--queue",
        type=text,
        action="append",
        metavar="QUEUE",
        help="it must consume this; default: its first queues",
    )
    parser.add_argument(
        "--timeout", type=seconds, metavar="SECONDS", default=10.0, help="how long the probe may take (10)"
    )
    parser.add_argument(
        "--max-busy",
        type=duration,
        metavar="AGE",
        help="how long a body may take all places; default: any time",
    )
    parser.set_defaults(needs_ledger=False)


def _add_prune(group: Groups) -> None:
    parser = add(group, "prune", prune, "delete what is past its retention; REVIEW is never deleted")
    add_yes(parser)
    words = "all finished keys of this tenant, past their retention or not"
    parser.add_argument("--scope", type=text, metavar="SCOPE", help=words)
    parser.add_argument(
        "--bite", type=count, metavar="N", default=BITE, help="rows of one kind in each statement"
    )
    parser.add_argument(
        "--pause", type=seconds, metavar="SECONDS", default=0.05, help="seconds between two bites (0.05)"
    )
    parser.add_argument(
        "--max-seconds", type=seconds, metavar="S", help="begin no further bite after this time"
    )


def _add_pauses(group: Groups) -> None:
    parser = add(group, "pause", pause_task, "make the calls of a task wait in the ledger for a time")
    _add_paused(parser)
    parser.add_argument(
        "--for",
        dest="lasts",
        type=duration,
        metavar="AGE",
        default="1h",
        help="after this time it ends by itself (1h)",
    )
    parser.add_argument(
        "--rate", type=rate, metavar="N/s", default=RATE, help="calls that the sweeper sends after it (20/s)"
    )
    add_reason(parser)
    add_yes(parser)
    parser = add(
        group, "resume", resume_task, "end a pause now; the sweeper sends the calls that wait at a rate"
    )
    _add_paused(parser)
    parser.add_argument(
        "--rate", type=rate, metavar="N/s", help="calls that the sweeper sends; default: the pause's own rate"
    )
    add_yes(parser)
    add(group, "pauses", list_pauses, "which tasks are paused, until when and why, and how many calls wait")


def _add_paused(parser: Parser) -> None:
    parser.add_argument("--task", type=text, required=True, metavar="NAME", help="the task's full name")
    parser.add_argument("--scope", type=text, metavar="SCOPE", help="only calls of this tenant")


def _add_keys(group: Groups) -> None:
    parser = add(group, "list", list_keys, "the newest keys; filters look at the newest 200,000")
    add_filters(parser)
    parser.add_argument("--limit", type=count, metavar="N", default=50, help="at most this many keys (50)")
    _add_show(group)
    _add_release(group)
    words = "end one live key, or all of a task or a scope that fit the filters"
    parser = add(group, "cancel", cancel_keys, words)
    add_digest(parser, nargs="?")
    add_filters(parser)
    add_reason(parser)
    add_yes(parser)


def _add_show(group: Groups) -> None:
    parser = add(group, "show", show_key, "one key: who holds it, since when, and what happens next")
    add_digest(parser, nargs="?")
    add_task_and_scope(parser)
    parser.add_argument(
        "--key",
        type=text,
        metavar="TEXT",
        help="the idempotency_key of the call, or the key as 'list' shows it",
    )
    parser.add_argument("--payload", action="store_true", help="also arguments, result and values of steps")


def _add_release(group: Groups) -> None:
    words = "take a running key from its holder, whose completion is refused from then on"
    parser = add(group, "release", release_key, words)
    add_digest(parser)
    add_reason(parser, required=True)
    add_yes(parser)
