"""A JSON text with places in it, which are filled for each message; the rest of the text is encoded once."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from json.encoder import encode_basestring_ascii
from typing import Any
from uuid import uuid4

from kombu.utils import json as wire

from ..identity.canonical import is_plain, is_sent_as_it_is
from ..identity.lost_keys import lost_key

#: Nobody can guess it: no text of a caller is taken for a place.
_SECRET = uuid4().hex
_PLACE = re.compile(f'"place ([a-z0-9_ ]+) {_SECRET}"')

#: A place in a pattern's text, or a percent sign that is none.
_FIELD = re.compile(r"%(?:%|\(([a-z0-9_ ]+)\)s)")

#: A text as JSON.
quoted = encode_basestring_ascii


def _made_once() -> Callable[[Any], str]:
    """What writes a plain value as kombu does, without a new encoder for each."""
    usual = json.JSONEncoder()
    make: Any = json.encoder.c_make_encoder  # type: ignore[attr-defined]  # not in the stubs
    if make is None:
        return usual.encode
    # As JSONEncoder.iterencode() makes it for each value; without a look for circles, of which none is plain.
    pieces = make(None, usual.default, quoted, None, ": ", ", ", False, False, True)  # noqa: FBT003
    return lambda value: "".join(pieces(value, 0))


_plain = _made_once()


def place(name: str) -> str:
    """A text that stands for what is filled in."""
    return f"place {name} {_SECRET}"


class Pattern:
    """The text of a value with places in it; raises ValueError where one is inside of another text."""

    def __init__(self, value: object) -> None:
        text = str(wire.dumps(value)).replace("%", "%%")
        self._text = _PLACE.sub(r"%(\1)s", text)
        if _SECRET in self._text:
            raise ValueError("A place is inside of another text.")

    def having(self, texts: Mapping[str, str]) -> Pattern:
        """The pattern with these JSON texts in their places; its other places stay."""
        made = Pattern(None)
        made._text = _FIELD.sub(
            lambda field: texts[field[1]].replace("%", "%%") if field[1] in texts else field[0], self._text
        )
        return made

    def filled(self, texts: Mapping[str, str]) -> str:
        """The text with these JSON texts in its places."""
        return self._text % texts


def plain_json(value: object) -> str | None:
    """A plain value's JSON text; None where it is not plain, or has none."""
    try:
        return _plain(value) if is_plain(value) else None
    except (ValueError, RecursionError):
        return None


def json_text(value: object) -> str | None:
    """A value's JSON text; None when it has none, or when the text would lose a key of a dict."""
    try:
        if is_sent_as_it_is(value):
            return _plain(value)
        return str(wire.dumps(value)) if lost_key(value) is None else None
    except Exception:  # noqa: BLE001  a project's own encoders may raise anything
        return None
