"""How a sub-command and the options that several of them take are added to the parser."""

from __future__ import annotations

from argparse import _SubParsersAction as Group
from typing import Any, TypeAlias

from .arguments import Parser, add_common, digest, duration, state, text
from .report import Action

Groups: TypeAlias = "Group[Parser]"


def add(group: Groups, name: str, action: Action, words: str, **of_parser: Any) -> Parser:
    """A sub-command; ``words`` say what it does."""
    description = f"{words[0].upper()}{words[1:]}."
    parser = group.add_parser(name, help=words, description=description, **of_parser)
    parser.set_defaults(action=action)
    add_common(parser)
    return parser


def add_noun(group: Groups, name: str, words: str) -> Groups:
    """What verbs are for."""
    noun = group.add_parser(name, help=words)
    return noun.add_subparsers(dest="verb", required=True, metavar="VERB")


def add_digest(parser: Parser, nargs: str | None = None) -> None:
    """The key, where there is one in full."""
    parser.add_argument("digest", type=digest, nargs=nargs, metavar="DIGEST", help="as 'list' shows it")


def add_task_and_scope(parser: Parser) -> None:
    """What keys are told apart by."""
    parser.add_argument("--task", type=text, metavar="NAME", help="the task's full name")
    parser.add_argument("--scope", type=text, metavar="SCOPE", help="the tenant")


def add_filters(parser: Parser) -> None:
    """Of keys, whatever their state."""
    add_task_and_scope(parser)
    parser.add_argument("--state", type=state, metavar="STATE", help="pending, running, retry, failed, ...")
    parser.add_argument(
        "--older-than", type=duration, metavar="AGE", help="made longer ago: 90s, 15m, 2h, 7d"
    )


def add_yes(parser: Parser) -> None:
    """Nothing is changed without it."""
    parser.add_argument("--yes", action="store_true", help="do it; without it nothing is changed")


def add_reason(parser: Parser, *, required: bool = False) -> None:
    """What is done leaves a line in the log that says why."""
    words = "why; it is logged with your name"
    parser.add_argument("--reason", type=text, required=required, metavar="TEXT", help=words)


def add_traceback(parser: Parser) -> None:
    """In the place of Django's own, which would show that of the command."""
    words = "also the traceback"
    parser.add_argument("--traceback", action="store_true", dest="with_traceback", help=words)
