"""Adds sub-commands, and the options that several of them take, to the parser."""

from __future__ import annotations

from argparse import _SubParsersAction as Group
from typing import Any, TypeAlias

from .arguments import Parser, add_common, digest, duration, state, text
from .report import Action

Groups: TypeAlias = "Group[Parser]"


def add(
    group: Groups,
    name: str,
    action: Action,
    words: str,
    *,
    formats: tuple[str, ...] = ("text", "json"),
    **of_parser: Any,
) -> Parser:
    """Add a sub-command; ``words`` say what it does."""
    description = f"{words[0].upper()}{words[1:]}."
    parser = group.add_parser(name, help=words, description=description, **of_parser)
    parser.set_defaults(action=action)
    add_common(parser, formats=formats)
    return parser


def add_noun(group: Groups, name: str, words: str) -> Groups:
    """Add a noun; returns the group for its verbs."""
    noun = group.add_parser(name, help=words)
    return noun.add_subparsers(dest="verb", required=True)


def add_digest(parser: Parser, nargs: str | None = None) -> None:
    """Add the argument that names one key."""
    parser.add_argument("digest", type=digest, nargs=nargs, metavar="DIGEST", help="as 'list' shows it")


def add_task_and_scope(parser: Parser) -> None:
    """Add the filters by task and by scope."""
    parser.add_argument("--task", type=text, metavar="NAME", help="the task's full name")
    parser.add_argument("--scope", type=text, metavar="SCOPE", help="the tenant")


def add_filters(parser: Parser) -> None:
    """Add the filters of keys."""
    add_task_and_scope(parser)
    parser.add_argument("--state", type=state, metavar="STATE", help="pending, running, retry, failed, ...")
    parser.add_argument(
        "--older-than", type=duration, metavar="AGE", help="made longer ago than this: 90s, 15m, 2h, 7d"
    )


def add_yes(parser: Parser) -> None:
    """Add ``--yes``, without which a command changes nothing."""
    parser.add_argument("--yes", action="store_true", help="do it; without --yes nothing is changed")


def add_reason(parser: Parser, *, required: bool = False) -> None:
    """Add ``--reason``, which the log keeps."""
    words = "the reason, which the log keeps with your name"
    parser.add_argument("--reason", type=text, required=required, metavar="TEXT", help=words)


def add_traceback(parser: Parser) -> None:
    """Add ``--traceback`` for the failed attempt's, in place of Django's option for the command's own."""
    words = "also the traceback"
    parser.add_argument("--traceback", action="store_true", dest="with_traceback", help=words)
