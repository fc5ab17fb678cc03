"""Encodes results and errors as bounded text that can be stored, whatever a task returned or raised."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any, NoReturn

from kombu.utils import json as wire

from ..errors.raised import is_shutdown, message_of
from ..exceptions import ResultNotStored
from ..identity.lost_keys import lost_key
from ..messages.unreadable import parsed, unreadable
from ..states import Reason

#: Characters of an error's message that are kept.
MESSAGE_LIMIT = 4096


def encode_result(value: object, *, limit: int) -> tuple[str | None, bool]:
    """Return the value as JSON text, and whether a replay can return the value.

    None needs no text. A value that JSON cannot hold or give back, or whose text is above ``limit``
    characters, is not stored: (None, False). Only the task's time limit bounds how long the value's own
    methods take.
    """
    if value is None:
        return None, True
    try:
        if lost_key(value) is not None:
            return None, False
        text = wire.dumps(value)
        if "__type__" in text:
            wire.loads(text)
    except BaseException as error:  # a result may raise anything from its own methods
        if is_shutdown(error):
            raise
        return None, False
    return (text, True) if len(text) <= limit else (None, False)


def given_json(text: str) -> Any:
    """Parse JSON that a person wrote. Raises ValueError, with the remedy, if it cannot be stored and read.

    That includes a number that no float holds (``1e999``), and an object with ``__type__`` that the
    serializer cannot read.
    """
    try:
        value = json.loads(
            text, parse_constant=_refuse_number, parse_float=_finite, object_pairs_hook=_refuse_repeats
        )
    except RecursionError:
        msg = "It is nested too deeply."
        raise ValueError(msg) from None
    if "__type__" in text:
        _check_readable(text)
    return value


def _check_readable(text: str) -> None:
    try:
        wire.loads(text)
    except Exception:  # noqa: BLE001  what "__type__" names decides, also the project's own decoders
        msg = 'An object with "__type__" and "__value__" cannot be read back: use other names for its keys.'
        raise ValueError(msg) from None


def _refuse_number(name: str) -> NoReturn:
    msg = f"{name} is no number in JSON: write null, or a text."
    raise ValueError(msg)


def _refuse_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(name for name in found if [each for each, _ in pairs].count(name) > 1)
        msg = f"An object has the key {ascii(twice)[:60]} twice: write it once."
        raise ValueError(msg)
    return found


def _finite(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _refuse_number(text[:20])


def storable(
    value: object, reason: Reason, *, keep: bool, limit: int, secrets: Iterable[str] = ()
) -> tuple[str | None, Reason]:
    """The text to store of a completion, and its reason: RESULT_NOT_STORED where a value is not kept.

    For REPLACED the value is the text itself. A result that quotes one of ``secrets`` is not kept: if it
    were masked, a replay would return a wrong value.
    """
    if reason is Reason.REPLACED:
        return str(value), reason
    text, is_stored = encode_result(value, limit=limit) if keep else (None, value is None)
    if text is not None and any(json.dumps(secret)[1:-1] in text for secret in secrets):
        text, is_stored = None, False
    if not is_stored and reason is Reason.DONE:
        reason = Reason.RESULT_NOT_STORED
    return text, reason


def decode_result(text: str | None) -> Any:
    """The stored value. Raises ResultNotStored for a text that cannot be read any more."""
    try:
        return None if text is None else wire.loads(text)
    except Exception as error:  # what "__type__" names decides, also the project's own decoders
        raise ResultNotStored(f"The stored result is {unreadable(error)}.") from error


def error_text(error: str, message: str) -> str:
    """An error by its class and message, as a key's row keeps it."""
    return json.dumps({"error": error, "message": message})


def decode_error(text: str | None) -> str:
    """The recorded error in one line."""
    error, message = error_parts(text)
    return f"{error}: {message}" if error else "no error was recorded"


def error_parts(text: str | None) -> tuple[str, str]:
    """Class and message of the recorded error; both empty where none was."""
    try:
        stored = parsed(text or "")
        return str(stored["error"]), str(stored["message"])
    except Exception:  # noqa: BLE001  a text that this package did not write may hold anything
        return "", ""


def describe(error: BaseException) -> str:
    """The exception's message, bounded; its class where the message cannot be read."""
    text = message_of(error)
    return text if len(text) <= MESSAGE_LIMIT else f"{text[: MESSAGE_LIMIT - 3]}..."
