"""A JSON text with places in it, which are filled for each message; the rest of the text is encoded once."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from json.encoder import encode_basestring_ascii
from uuid import uuid4

from kombu.utils import json as wire

from ..identity.canonical import is_plain
from ..identity.lost_keys import lost_key

#: Nobody can guess it: no text of a caller is taken for a place.
_SECRET = uuid4().hex
_PLACE = re.compile(f'"place ([a-z0-9_ ]+) {_SECRET}"')

#: kombu's own text of a value that is plain, without a new encoder for each.
_plain = json.JSONEncoder().encode

#: A text as JSON.
quoted = encode_basestring_ascii


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

    def filled(self, texts: Mapping[str, str]) -> str:
        """The text with these JSON texts in its places."""
        return self._text % texts


def json_text(value: object) -> str | None:
    """A value's JSON text; None when it has none, or when the text would lose a key of a dict."""
    try:
        if is_plain(value):
            return _plain(value)
        return str(wire.dumps(value)) if lost_key(value) is None else None
    except Exception:  # noqa: BLE001  a project's own encoders may raise anything
        return None
