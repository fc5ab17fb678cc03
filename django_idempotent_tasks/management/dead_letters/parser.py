"""Adds the verbs of ``idem dead-letters`` and ``idem redrives``, with their options."""

from __future__ import annotations

from ..cli.arguments import Parser, arguments, category, count, given_json, number, rate, state, text, when
from ..cli.options import Groups, add, add_digest, add_reason, add_task_and_scope, add_traceback, add_yes
from .discard import discard
from .export import export
from .list import list_letters
from .operations import follow_redrive, list_redrives, show_redrive, stop_redrive
from .redrive import redrive
from .resolve import resolve
from .show import show_letter


def add_dead_letters(group: Groups) -> None:
    """``list``, ``show``, ``redrive``, ``discard``, ``resolve`` and ``export``."""
    _add_list(group)
    parser = add(
        group,
        "show",
        show_letter,
        "one dead letter: its error, its attempts, and what each decision would do",
        conflict_handler="resolve",
    )
    add_digest(parser)
    add_traceback(parser)
    parser.add_argument("--payload", action="store_true", help="also the call's arguments")
    _add_redrive(group)
    parser = add(
        group, "discard", discard, "take one dead letter, or all that fit, off the list; the record is kept"
    )
    _add_digest_or_filters(parser)
    _add_decision(parser)
    _add_resolve(group)
    parser = add(group, "export", export, "JSON lines of the dead letters that fit; all without a filter")
    add_letter_filters(parser)
    parser.add_argument("--payload", action="store_true", help="with the calls' real arguments")
    parser.set_defaults(streams=True)


def add_redrives(group: Groups) -> None:
    """``list``, ``show``, ``follow`` and ``stop``."""
    parser = add(group, "list", list_redrives, "redrives of many dead letters, the newest first")
    parser.add_argument("--limit", type=count, metavar="N", default=20, help="at most this many (20)")
    parser = add(group, "show", show_redrive, "how far a redrive is, and how many have failed again since")
    _add_number(parser)
    parser = add(group, "follow", follow_redrive, "wait for the end of a redrive and say how it went")
    _add_number(parser)
    parser = add(group, "stop", stop_redrive, "stop a redrive; the calls that it has redriven stay redriven")
    _add_number(parser)
    _add_decision(parser)


def add_letter_filters(parser: Parser) -> None:
    """Add the filters of dead letters and failed attempts; times are those of the failure."""
    add_task_and_scope(parser)
    parser.add_argument("--signature", type=text, metavar="SIG", help="one kind of error, as 'list' shows it")
    parser.add_argument(
        "--category",
        type=category,
        metavar="CATEGORY",
        help="fatal, retryable, manual_review; expected: ends on which nobody has to decide",
    )
    parser.add_argument("--state", type=state, metavar="STATE", help="failed or review")
    _add_times(parser)


def _add_times(parser: Parser) -> None:
    parser.add_argument(
        "--since",
        "--newer-than",
        dest="since",
        type=when,
        metavar="WHEN",
        help="from when: 2h (ago), 2026-03-01T14:05",
    )
    parser.add_argument(
        "--until",
        "--older-than",
        dest="until",
        type=when,
        metavar="WHEN",
        help="until when, in the same form",
    )


def _add_list(group: Groups) -> None:
    parser = add(group, "list", list_letters, "dead letters, grouped by their error's signature")
    add_letter_filters(parser)
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "--by-signature", action="store_true", help="one line for each kind of error (the default)"
    )
    form.add_argument("--rows", action="store_true", help="one line for each dead letter")
    form.add_argument(
        "--discarded", action="store_true", help="only discarded dead letters, one line for each"
    )
    parser.add_argument("--limit", type=count, metavar="N", default=50, help="at most this many lines (50)")


def _add_digest_or_filters(parser: Parser) -> None:
    add_digest(parser, nargs="?")
    add_letter_filters(parser)
    parser.add_argument("--all", action="store_true", help="all dead letters, instead of filters")


def _add_decision(parser: Parser) -> None:
    add_reason(parser)
    add_yes(parser)


def _add_redrive(group: Groups) -> None:
    parser = add(group, "redrive", redrive, "run one dead letter again, or all that fit: same key, same call")
    _add_digest_or_filters(parser)
    words = 'other arguments for the dead letter DIGEST: {"args": [...], "kwargs": {...}}'
    parser.add_argument("--arguments", type=arguments, metavar="JSON", help=words)
    parser.add_argument("--rate", type=rate, metavar="N/s", help="at most this many keys a second")
    parser.add_argument("--wait", action="store_true", help="follow the redrive of many to its end")
    _add_decision(parser)


def _add_resolve(group: Groups) -> None:
    parser = add(group, "resolve", resolve, "decide how one dead letter ends: run again, done, or discarded")
    add_digest(parser)
    parser.add_argument("--rerun", action="store_true", help="its effects did not happen: run it again")
    parser.add_argument(
        "--done",
        type=given_json,
        metavar="RESULT",
        help="its effects happened: the key succeeds with this JSON",
    )
    parser.add_argument("--abandon", action="store_true", help="nobody will do the work: discard it")
    _add_decision(parser)


def _add_number(parser: Parser) -> None:
    parser.add_argument("number", type=number, metavar="ID", help="as 'list' shows it")
