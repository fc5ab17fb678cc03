"""Writes the keys of calls with plain arguments; does once what all calls of a task have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .arguments import Binder
from .canonical import plain_text
from .rules import DEFAULT, KeyRules
from .text import value_text

#: An int below it has a short text, which is its canonical one.
_LARGE = 2**64


class Usual:
    """The key of a call whose arguments are plain, by rules that name arguments."""

    def __init__(self, binder: Binder, key: str | tuple[str, ...]) -> None:
        self._bind = binder.bind
        self._is_one = isinstance(key, str)
        self._names = (key,) if isinstance(key, str) else key

    def texts(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[str, str] | None:
        """The canonical text of the key and its text for people; None for a value that needs a closer look.

        Raises TypeError where the arguments do not fit.
        """
        bound = self._bind(*args, **kwargs)
        texts, shown = [], []
        for name in self._names:
            value = bound[name]
            if type(value) is int and -_LARGE < value < _LARGE:
                text = seen = int.__repr__(value)
            else:
                found = plain_text(value)
                if found is None:
                    return None
                text, seen = found, value_text(value)
            texts.append(text)
            shown.append(f"{name}={seen}")
        return (texts[0], shown[0]) if self._is_one else (f"[{','.join(texts)}]", ", ".join(shown))


def usual_of(rules: KeyRules) -> Usual | None:
    """The form of the keys by these rules; None for rules by which a call has to be looked at more closely.

    What ``redact`` hides is not left out of its texts.
    """
    key, fingerprint = rules.key, rules.fingerprint
    if rules.scope is not None or rules.sensitive or not (fingerprint is None or fingerprint is DEFAULT):
        return None
    if not isinstance(key, str | tuple):
        return None
    single = {*rules.binder.names} - rules.binder.collecting
    return Usual(rules.binder, key) if single.issuperset((key,) if isinstance(key, str) else key) else None
