"""Builds the tree of sub-commands, each with its options and the function that carries it out."""

from __future__ import annotations

from django.core.management.base import CommandParser

from ..sweeper.prune import BITE
from .cli.arguments import Parser, count, duration, seconds, text
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
from .failed_jobs.parser import add_failed_jobs
from .keys.cancel import cancel_keys
from .keys.release import release_key
from .keys.show import list_keys, show_key
from .upkeep.beat import beat_health, run_beat
from .upkeep.prune import prune
from .upkeep.run_now import run_periodic
from .upkeep.status import status
from .upkeep.sweep import sweep

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


def add_commands(parser: CommandParser) -> None:
    """``idem status``, ``sweep``, ``prune``, ``beat``, ``health``, and the nouns with their verbs."""
    group = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=Parser)
    add(group, "status", status, "keys by state, who sweeps, and what needs a person (then exit code 1)")
    _add_sweep(group)
    _add_prune(group)
    _add_beat(group)
    _add_keys(add_noun(group, "keys", "list, show, release and cancel keys"))
    add_dead_letters(add_noun(group, "dead-letters", "list, show, export and decide on dead letters"))
    add_redrives(add_noun(group, "redrives", "list, show, follow and stop redrives of many dead letters"))
    add_failed_jobs(add_noun(group, "failed-jobs", "list, show and rerun failed attempts"))


def _add_sweep(group: Groups) -> None:
    parser = add(group, "sweep", sweep, "free expired leases and send what is due, until SIGTERM")
    parser.add_argument(
        "--once", action="store_true", help="sweep until nothing is due, whoever leads, then end"
    )


def _add_beat(group: Groups) -> None:
    parser = add(group, "beat", run_beat, "run celery beat: start as many as you like, one leads")
    parser.add_argument("--loglevel", "-l", choices=LEVELS, default="INFO", help="what is logged (INFO)")
    parser.add_argument(
        "--enable-remote-control", action="store_true", help="answer 'celery inspect ping' as celerybeat@host"
    )
    # Without a verb the command runs beat itself.
    verbs = parser.add_subparsers(dest="verb", metavar="VERB")
    parser = add(verbs, "run-now", run_periodic, "run a periodic task now, beside its schedule")
    parser.add_argument("name", type=text, metavar="NAME", help="the periodic task's name")
    add_reason(parser)
    add_yes(parser)
    subjects = add_noun(group, "health", "for probes: exit code 0 is healthy, 1 is not, 2 could not look")
    parser = add(subjects, "beat", beat_health, "whether a beat leads, its last tick, and what is overdue")
    parser.add_argument(
        "--max-age", type=duration, metavar="AGE", default="60s", help="how late an entry may be (60s)"
    )
    parser.add_argument("--leader-only", action="store_true", help="do not look at the entries")


def _add_prune(group: Groups) -> None:
    parser = add(group, "prune", prune, "delete what is past its retention; REVIEW is never deleted")
    add_yes(parser)
    words = "all finished keys of this tenant, past their retention or not"
    parser.add_argument("--scope", type=text, metavar="SCOPE", help=words)
    parser.add_argument("--bite", type=count, metavar="N", default=BITE, help="rows of one kind a statement")
    parser.add_argument(
        "--pause", type=seconds, metavar="SECONDS", default=0.05, help="between two bites (0.05)"
    )
    parser.add_argument(
        "--max-seconds", type=seconds, metavar="S", help="begin no further bite after so long"
    )


def _add_keys(group: Groups) -> None:
    parser = add(group, "list", list_keys, "the newest keys; filters look at the newest 200,000")
    add_filters(parser)
    parser.add_argument("--limit", type=count, metavar="N", default=50, help="at most so many keys (50)")
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
    parser.add_argument("--payload", action="store_true", help="also the call's arguments and its result")


def _add_release(group: Groups) -> None:
    words = "take a running key from its holder, whose completion is refused from then on"
    parser = add(group, "release", release_key, words)
    add_digest(parser)
    add_reason(parser, required=True)
    add_yes(parser)
