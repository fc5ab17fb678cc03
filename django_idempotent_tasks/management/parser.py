"""The tree of sub-commands, each with its options and the function that does it."""

from __future__ import annotations

from argparse import _SubParsersAction as Group
from typing import TypeAlias

from django.core.management.base import CommandParser

from ..pruning import BITE
from .arguments import Parser, add_common, count, digest, duration, seconds, state, text
from .beat import beat_health, run_beat
from .cancel import cancel_keys
from .listing import list_keys, show_key
from .prune import prune
from .release import release_key
from .report import Action
from .status import status
from .sweep import sweep

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")

Groups: TypeAlias = "Group[Parser]"


def add_commands(parser: CommandParser) -> None:
    """``idem status``, ``sweep``, ``prune``, ``beat``, ``health`` and ``keys``."""
    group = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=Parser)
    _add(group, "status", status, "counts by state, who sweeps, and what needs a person (then exit code 1)")
    _add_sweep(group)
    _add_prune(group)
    _add_beat(group)
    keys = group.add_parser("keys", help="list, show, release and cancel keys")
    _add_keys(keys.add_subparsers(dest="verb", required=True, metavar="VERB"))


def _add(group: Groups, name: str, action: Action, words: str) -> Parser:
    parser = group.add_parser(name, help=words, description=f"{words[0].upper()}{words[1:]}.")
    parser.set_defaults(action=action)
    add_common(parser)
    return parser


def _add_sweep(group: Groups) -> None:
    parser = _add(group, "sweep", sweep, "free expired leases and send what is due, until SIGTERM")
    parser.add_argument("--once", action="store_true", help="until nothing is due, whoever leads, then end")


def _add_beat(group: Groups) -> None:
    parser = _add(group, "beat", run_beat, "celery beat: start as many as you like, one leads")
    parser.add_argument("--loglevel", "-l", choices=LEVELS, default="INFO", help="what is logged (INFO)")
    parser.add_argument(
        "--enable-remote-control", action="store_true", help="answer 'celery inspect ping' as celerybeat@host"
    )
    health = group.add_parser("health", help="for probes: exit code 0 is fine, 1 is not, 2 could not look")
    subjects = health.add_subparsers(dest="subject", required=True, metavar="SUBJECT", parser_class=Parser)
    parser = _add(subjects, "beat", beat_health, "whether a beat leads, its last tick, and what is overdue")
    parser.add_argument(
        "--max-age", type=duration, metavar="AGE", default="60s", help="how late an entry may be (60s)"
    )
    parser.add_argument("--leader-only", action="store_true", help="do not look at the entries")


def _add_prune(group: Groups) -> None:
    parser = _add(group, "prune", prune, "delete what is past its retention; REVIEW is never deleted")
    _add_yes(parser)
    parser.add_argument("--bite", type=count, metavar="N", default=BITE, help="rows of one kind a statement")
    parser.add_argument(
        "--pause", type=seconds, metavar="SECONDS", default=0.05, help="between two bites (0.05)"
    )
    parser.add_argument("--max-seconds", type=seconds, metavar="S", help="begin no bite after so long")


def _add_keys(group: Groups) -> None:
    parser = _add(group, "list", list_keys, "the newest keys; filters look at the newest 200,000")
    _add_filters(parser)
    parser.add_argument("--limit", type=count, metavar="N", default=50, help="at most so many keys (50)")
    _add_show(group)
    _add_release(group)
    parser = _add(group, "cancel", cancel_keys, "end one live key, or all of a task that fit the filters")
    _add_digest(parser, nargs="?")
    _add_filters(parser)
    _add_yes(parser)


def _add_show(group: Groups) -> None:
    parser = _add(group, "show", show_key, "one key: who holds it, since when, and what happens next")
    _add_digest(parser, nargs="?")
    _add_task_and_scope(parser)
    parser.add_argument(
        "--key",
        type=text,
        metavar="TEXT",
        help="the idempotency_key of the call, or the key as 'list' shows it",
    )
    parser.add_argument("--payload", action="store_true", help="also the call's arguments and its result")


def _add_release(group: Groups) -> None:
    words = "take a running key from its holder, whose completion is refused from then on"
    parser = _add(group, "release", release_key, words)
    _add_digest(parser)
    parser.add_argument(
        "--reason", type=text, required=True, metavar="TEXT", help="why; it is logged with your name"
    )
    _add_yes(parser)


def _add_digest(parser: Parser, nargs: str | None = None) -> None:
    parser.add_argument("digest", type=digest, nargs=nargs, metavar="DIGEST", help="as 'list' shows it")


def _add_task_and_scope(parser: Parser) -> None:
    parser.add_argument("--task", type=text, metavar="NAME", help="the task's full name")
    parser.add_argument("--scope", type=text, metavar="SCOPE", help="the tenant")


def _add_filters(parser: Parser) -> None:
    _add_task_and_scope(parser)
    parser.add_argument("--state", type=state, metavar="STATE", help="pending, running, retry, failed, ...")
    parser.add_argument(
        "--older-than", type=duration, metavar="AGE", help="made longer ago: 90s, 15m, 2h, 7d"
    )


def _add_yes(parser: Parser) -> None:
    parser.add_argument("--yes", action="store_true", help="do it; without it nothing is changed")
