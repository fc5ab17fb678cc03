"""Results and errors as text: bounded, and always storable, whatever a task returned or raised."""

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
    """The value as JSON text and whether it can be replayed.

    None needs no text. What is not JSON, does not come back from it, or is above ``limit``
    characters is not stored, and says so. How long the value's own methods take is a matter of the
    task's time limit.
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
    """What a person wrote as JSON. Raises ValueError, with the remedy, for what cannot be stored and read.

    That is also a number that no float holds (``1e999``), and an object with ``__type__`` that is none of
    the serializer's own.
    """
    try:
        value = json.loads(text, parse_constant=_no_number, parse_float=_finite, object_pairs_hook=_once)
    except RecursionError:
        msg = "It is nested too deeply."
        raise ValueError(msg) from None
    if "__type__" in text:
        _ask_whether_it_can_be_read(text)
    return value


def _ask_whether_it_can_be_read(text: str) -> None:
    try:
        wire.loads(text)
    except Exception:  # noqa: BLE001  what "__type__" names decides, also the project's own decoders
        msg = 'An object with "__type__" and "__value__" is none that can be read: name its keys otherwise.'
        raise ValueError(msg) from None


def _no_number(name: str) -> NoReturn:
    msg = f"{name} is no number in JSON: write null, or a text."
    raise ValueError(msg)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(name for name in found if [each for each, _ in pairs].count(name) > 1)
        msg = f"An object has the key {ascii(twice)[:60]} twice: write it once."
        raise ValueError(msg)
    return found


def _finite(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _no_number(text[:20])


def storable(
    value: object, reason: Reason, *, keep: bool, limit: int, secrets: Iterable[str] = ()
) -> tuple[str | None, Reason]:
    """What to store of a completion, and its reason: RESULT_NOT_STORED where a value is not kept.

    Of one that is REPLACED the value is the text itself. A result that quotes one of ``secrets`` is not
    kept: masked, a replay would hand a wrong value to a caller.
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
    except Exception:  # noqa: BLE001  whatever a text that is none of ours holds
        return "", ""


def describe(error: BaseException) -> str:
    """The exception's message, bounded; its class where even that cannot be had."""
    text = message_of(error)
    return text if len(text) <= MESSAGE_LIMIT else f"{text[: MESSAGE_LIMIT - 3]}..."
