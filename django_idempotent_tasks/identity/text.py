"""Makes texts for people: a key's text short, printable and without hidden values; any text on one line."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from reprlib import Repr
from uuid import UUID

KEY_TEXT_LENGTH = 255
STEP_NAME_LENGTH = 100
HIDDEN = "(hidden)"

#: Control characters, line separators, marks that turn the writing direction, surrogates.
_NOT_FOR_PEOPLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_SHOWN_AS_THEY_ARE = frozenset({str, int, float, bool, type(None), Decimal, UUID, date, datetime, time})
_SHORT = Repr()
_SHORT.maxlevel = 3
#: The text of a key made of arguments, or of a key function's value under the name "key".
_DERIVED = re.compile(r"([A-Za-z_]\w*)=")
#: Characters of a digest that tell hidden keys apart.
_SHORT_DIGEST = 8


def arguments_text(names: Sequence[str], values: Mapping[str, object]) -> str:
    """``order_id=7, amount=9.90``; a name without a value here is shown as hidden."""
    return ", ".join([f"{name}={value_text(values[name]) if name in values else HIDDEN}" for name in names])


def value_text(value: object) -> str:
    """One value of a key."""
    return _shortened(str(value)) if type(value) in _SHOWN_AS_THEY_ARE else _SHORT.repr(value)


def hidden_text(digest: UUID) -> str:
    """The text of a key whose value is hidden, with enough of the digest to tell keys apart."""
    return f"{HIDDEN} {digest.hex[:_SHORT_DIGEST]}"


def public_text(text: str, digest: UUID) -> str:
    """A key's text for people who may not see arguments: its first name and a short digest.

    Only the first name is certain to be a name: a value may have ``, name=`` in it.
    """
    name = _DERIVED.match(text)
    return text if name is None else f"{name[1]}=… {digest.hex[:_SHORT_DIGEST]}"


def for_people(text: str) -> str:
    """A key's text, shortened, without characters that a terminal or a page would act on."""
    text = _shortened(text)
    return text if text.isprintable() else _NOT_FOR_PEOPLE.sub("\ufffd", text)


def _shortened(text: str) -> str:
    # Keeps both ends, so that keys made of a long prefix and a number stay apart.
    return text if len(text) <= KEY_TEXT_LENGTH else f"{text[:190]}…{text[-64:]}"


def harmless(text: object) -> str:
    """The text on one line, with characters that a terminal would act on as escapes."""
    line = str(text)
    if line.isprintable():
        return line
    return "".join(char if char.isprintable() else _escaped(char) for char in line)


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode()
