"""Checks names and values of steps before they are kept, and encodes and decodes the values."""

from __future__ import annotations

from collections.abc import Iterable

from ..conf import settings
from ..exceptions import ConfigurationError
from ..identity.text import STEP_NAME_LENGTH
from ..states import Reason
from .encoding import storable


def check_name(name: object) -> None:
    """Raise ValueError for what cannot name a step."""
    if not isinstance(name, str) or not 0 < len(name) <= STEP_NAME_LENGTH or not name.isprintable():
        shown = ascii(name)[:60]
        msg = f"A step's name is a printable text of 1 to {STEP_NAME_LENGTH} characters, not {shown}."
        raise ValueError(msg)


def encode_value(task: str, name: str, value: object, *, secrets: Iterable[str] = ()) -> str | None:
    """The value as JSON text. Raises ConfigurationError for one that no later attempt could be given."""
    limit = settings().max_result
    text, reason = storable(value, Reason.DONE, keep=True, limit=limit, secrets=secrets)
    if reason is Reason.RESULT_NOT_STORED:
        raise ConfigurationError(
            f"{task}: the value of the step {name!r} cannot be kept. It has to be JSON of at most {limit}"
            " characters (MAX_RESULT) and must quote no sensitive argument: return an id or a summary."
        )
    return text
