"""Turns the arguments of ``manage.py idem`` into values, from the shell and from ``call_command``."""

from __future__ import annotations

import re
from argparse import SUPPRESS, ArgumentTypeError
from datetime import datetime, timedelta
from typing import Any, NoReturn
from uuid import UUID

from django.core.management.base import CommandParser

from ...conf.values import LONGEST
from ...ledger.encoding import given_json as parsed
from ...models import BatchState
from ...operations.redrives import FASTEST
from ...operations.selection import NOT_IN_A_COLUMN, YEARS
from ...states import Category, State
from .report import Options, could_not_run

_DURATION = re.compile(r"(\d+)\s*([smhd]?)")
_LISTENING = re.compile(r"([\w.-]+):(\d{1,5})")
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


class Parser(CommandParser):
    """A parser whose errors end with exit code 2, also when a program calls the command."""

    def error(self, message: str) -> NoReturn:
        if self.called_from_command_line:
            super().error(message)
        raise could_not_run(f"{message}. {self.format_usage().strip()}")


def duration(value: object) -> timedelta:
    """A timedelta from ``90``, ``90s``, ``15m``, ``2h`` or ``7d``."""
    if isinstance(value, timedelta):
        return value
    match = _DURATION.fullmatch(str(value).strip())
    if match is None or (seconds := int(match[1]) * _UNITS[match[2]]) > LONGEST:
        msg = f"{value!r} is no duration; write 90s, 15m, 2h or 7d"
        raise ArgumentTypeError(msg)
    return timedelta(seconds=seconds)


def text(value: object) -> object:
    """A text that a column can hold: undecodable bytes of a shell arrive as lone surrogates."""
    if isinstance(value, str) and NOT_IN_A_COLUMN.search(value):
        msg = f"{value!r} cannot be searched for or logged: it has a NUL or bytes that are no text"
        raise ArgumentTypeError(msg)
    return value


def digest(value: object) -> UUID:
    """A key's digest in full, as ``idem keys list`` prints it."""
    try:
        return UUID(str(value))
    except ValueError:
        msg = (
            f"{value!r} is no digest; 'idem keys list' and 'idem dead-letters list --rows' print them in full"
        )
        raise ArgumentTypeError(msg) from None


def state(value: object) -> State:
    """The state of a name."""
    try:
        return State[str(value).upper()] if not isinstance(value, State) else value
    except KeyError:
        msg = f"{value!r} is no state; use one of {', '.join(each.name.lower() for each in State)}"
        raise ArgumentTypeError(msg) from None


def category(value: object) -> Category:
    """The category of a name."""
    name = str(value).upper().replace("-", "_")
    try:
        return Category[name] if not isinstance(value, Category) else value
    except KeyError:
        msg = f"{value!r} is no category; use fatal, retryable, manual_review or expected"
        raise ArgumentTypeError(msg) from None


def when(value: object) -> timedelta | datetime:
    """A span before now (``2h``), or a moment (``2026-03-01T14:05``)."""
    if isinstance(value, timedelta | datetime):
        return value
    try:
        return duration(value)
    except ArgumentTypeError:
        moment = _moment(str(value))
    if moment is None or moment.year not in YEARS:
        msg = f"{value!r} is no time; write 15m or 2h (ago), or 2026-03-01T14:05"
        raise ArgumentTypeError(msg)
    return moment


def _moment(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def rate(value: object) -> int:
    """Keys a second: ``10/s``, or 10."""
    number = count(str(value).removesuffix("/s"))
    if number > FASTEST:
        msg = f"{value!r} is no rate; write 1/s to {FASTEST}/s, or leave it out for no limit"
        raise ArgumentTypeError(msg)
    return number


def listening(value: object) -> tuple[str, int]:
    """An address and a port, ``127.0.0.1:9180``."""
    if isinstance(value, tuple):
        return value
    match = _LISTENING.fullmatch(str(value).strip())
    if match is None or not 0 <= int(match[2]) < 65536:  # noqa: PLR2004
        msg = f"{value!r} is no address with a port; write 127.0.0.1:9180"
        raise ArgumentTypeError(msg)
    return match[1], int(match[2])


def given_json(value: object) -> tuple[object]:
    """The value of JSON text, in a tuple, since null is a value too."""
    if isinstance(value, tuple):
        return value
    if not isinstance(value, str):
        return (value,)
    try:
        return (parsed(value),)
    except ValueError as error:
        msg = f"{value[:80]!r} is not JSON: {error}"
        raise ArgumentTypeError(msg) from None


def arguments(value: object) -> tuple[list[Any], dict[str, Any]]:
    """A call's arguments: ``{"args": [...], "kwargs": {...}}``, either may be left out."""
    if isinstance(value, tuple):
        return value
    (given,) = given_json(value)
    if isinstance(given, dict) and given and given.keys() <= {"args", "kwargs"}:
        args, kwargs = given.get("args", []), given.get("kwargs", {})
        if isinstance(args, list) and isinstance(kwargs, dict):
            return args, kwargs
    msg = 'the arguments are written {"args": [...], "kwargs": {...}}'
    raise ArgumentTypeError(msg)


def batch(value: object) -> UUID:
    """The id of a batch, as ``idem batches list`` prints it."""
    try:
        return UUID(str(value))
    except ValueError:
        msg = f"{value!r} is no id of a batch; 'idem batches list' prints them"
        raise ArgumentTypeError(msg) from None


def batch_state(value: object) -> BatchState:
    """The state of a batch, by its name."""
    try:
        return (
            BatchState[str(value).upper().replace("-", "_")] if not isinstance(value, BatchState) else value
        )
    except KeyError:
        names = ", ".join(each.name.lower() for each in BatchState)
        msg = f"{value!r} is no state of a batch; use one of {names}"
        raise ArgumentTypeError(msg) from None


def number(value: object) -> int:
    """The id of a row, as lists show it."""
    if not re.fullmatch(r"[1-9]\d{0,17}", str(value)):
        msg = f"{value!r} is no id; lists show them in their first column"
        raise ArgumentTypeError(msg)
    return int(str(value))


def count(value: object) -> int:
    """A whole number above 0."""
    if not re.fullmatch(r"[1-9]\d{0,8}", str(value)):
        msg = f"{value!r} is no whole number between 1 and 999999999"
        raise ArgumentTypeError(msg)
    return int(str(value))


def seconds(value: object) -> float:
    """A number of seconds, 0 or more."""
    try:
        number = float(str(value))
    except ValueError:
        number = -1
    if not 0 <= number <= LONGEST:
        msg = f"{value!r} is no number of seconds"
        raise ArgumentTypeError(msg)
    return number


_TYPES = {
    "digest": digest,
    "task": text,
    "scope": text,
    "key": text,
    "reason": text,
    "older_than": duration,
    "max_age": duration,
    "lasts": duration,
    "max_busy": duration,
    "name": text,
    "timeout": seconds,
    "state": state,
    "signature": text,
    "task_id": text,
    "category": category,
    "since": when,
    "until": when,
    "rate": rate,
    "arguments": arguments,
    "done": given_json,
    "number": number,
    "batch": batch,
    "batch_state": batch_state,
    "limit": count,
    "bite": count,
    "pause": seconds,
    "max_seconds": seconds,
}


def checked(options: Options) -> dict[str, Any]:
    """The options with converted values: ``call_command`` passes keywords on as they are given."""
    values = dict(options)
    for name, convert in _TYPES.items():
        if values.get(name) is not None:
            try:
                values[name] = convert(values[name])
            except ArgumentTypeError as error:
                raise could_not_run(f"{name}: {error}") from None
    return values


def add_common(parser: CommandParser, *, formats: tuple[str, ...]) -> None:
    """Add the options of every sub-command; Django's own may also follow the sub-command."""
    parser.add_argument("--format", choices=formats, default="text", help="what is printed")
    parser.add_argument("--database", metavar="ALIAS", help="the ledger's database; default: the setting")
    parser.add_argument("-v", "--verbosity", type=int, choices=range(4), default=SUPPRESS, help=SUPPRESS)
    for name in ("--settings", "--pythonpath"):
        parser.add_argument(name, default=SUPPRESS, help=SUPPRESS)
    for name in ("--traceback", "--no-color", "--force-color"):
        parser.add_argument(name, action="store_true", default=SUPPRESS, help=SUPPRESS)
