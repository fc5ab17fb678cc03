"""Adds the verbs of ``idem failed-jobs``, with their options."""

from __future__ import annotations

from ..cli.arguments import Parser, count, number, text
from ..cli.options import Groups, add, add_reason, add_traceback, add_yes
from ..dead_letters.parser import add_letter_filters
from .list import list_jobs, show_job
from .rerun import rerun_job


def add_failed_jobs(group: Groups) -> None:
    """``list``, ``show`` and ``rerun``."""
    parser = add(group, "list", list_jobs, "failed attempts, the newest first, also of work that was retried")
    add_letter_filters(parser)
    parser.add_argument("--task-id", type=text, metavar="ID", help="the call's task id")
    parser.add_argument("--plain", action="store_true", help="only attempts of tasks without a key")
    parser.add_argument("--limit", type=count, metavar="N", default=50, help="at most this many (50)")
    parser = add(group, "show", show_job, "one failed attempt", conflict_handler="resolve")
    _add_number(parser)
    add_traceback(parser)
    parser.add_argument("--payload", action="store_true", help="also the arguments of a plain task's call")
    parser = add(group, "rerun", rerun_job, "send the call of a failed plain task again, under a new task id")
    _add_number(parser)
    parser.add_argument("--again", action="store_true", help="rerun a job that was rerun before")
    add_reason(parser)
    add_yes(parser)


def _add_number(parser: Parser) -> None:
    parser.add_argument("number", type=number, metavar="ID", help="as 'list' shows it")
