"""The answer of a sub-command: the same facts as text and as JSON, with an exit code."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias
from uuid import UUID

from django.core.management import CommandError

from ...ledger.stores import LedgerStore

FINE = 0
FINDINGS = 1
COULD_NOT_RUN = 2

Options: TypeAlias = Mapping[str, Any]
#: Prints a line of progress, for people only.
Say: TypeAlias = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class Report:
    """The answer: ``facts`` become the JSON document, ``lines`` the text; both say the same.

    ``is_silent``: the sub-command has printed everything already.
    """

    facts: Mapping[str, object]
    lines: Sequence[str]
    code: int = FINE
    is_silent: bool = False

    def render(self, form: str) -> str:
        """The text of ``--format text`` or ``json``."""
        return "\n".join(self.lines) if form == "text" else to_json(self.facts)


#: The function of a sub-command; its store is that of ``--database``.
Action: TypeAlias = Callable[[LedgerStore, Options, Say], Report]


def could_not_run(message: str) -> CommandError:
    """The error that ends the command with exit code 2; the message names the remedy."""
    return CommandError(message, returncode=COULD_NOT_RUN)


def to_json(facts: object) -> str:
    """A JSON document in ASCII, so that a terminal sees no control character that a task wrote."""
    return _json(facts, indent=2)


def to_line(facts: object) -> str:
    """The same document on one line."""
    return _json(facts)


def _json(facts: object, *, indent: int | None = None) -> str:
    try:
        return json.dumps(facts, indent=indent, default=_plain, allow_nan=False)
    except ValueError:  # JSON has no NaN, which arguments and results may have: it is written as text
        named = json.loads(json.dumps(facts, default=_plain), parse_constant=str)
        return json.dumps(named, indent=indent)


def _plain(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, UUID):
        return str(value)
    msg = f"{type(value).__name__} has no place in a report"
    raise TypeError(msg)
