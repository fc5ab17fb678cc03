"""Writes the keys of calls with plain arguments; does once what all calls of a task have in common."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from .arguments import Binder
from .canonical import plain_text
from .rules import ALL_ARGUMENTS, DEFAULT, Constant, KeyRules, Names
from .text import value_text

#: An int below it has a short text, which is its canonical one.
_LARGE = 2**64


class Usual:
    """The key of a call whose arguments are plain, by rules that name arguments or take all of them."""

    __slots__ = ("_bind", "_names", "_shown", "_text")

    def __init__(self, binder: Binder, key: Constant | Names) -> None:
        self._bind = binder.bind
        names = binder.names if isinstance(key, Constant) else (key,) if isinstance(key, str) else key
        self._names = names
        #: The canonical text of the key, and its text for people, with a field for the text of each value.
        self._text = _form(key, names)
        self._shown = ", ".join(f"{name}={{{place}}}" for place, name in enumerate(names))

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
            shown.append(seen)
        return self._text.format(*texts), self._shown.format(*shown)


def usual_of(rules: KeyRules) -> Usual | None:
    """The form of the keys by these rules; None for rules by which a call has to be looked at more closely.

    What ``redact`` hides is not left out of its texts.
    """
    key, fingerprint = rules.key, rules.fingerprint
    if rules.scope is not None or rules.sensitive or not (fingerprint is None or fingerprint is DEFAULT):
        return None
    if not (key is ALL_ARGUMENTS or isinstance(key, str | tuple)):
        return None
    return _made(rules.binder, key)


@lru_cache(maxsize=1000)
def _made(binder: Binder, key: Constant | Names) -> Usual | None:
    usual = Usual(binder, key)
    single = {*binder.names} - binder.collecting
    return usual if single.issuperset(usual._names) else None  # noqa: SLF001  of the class above


def _form(key: Constant | Names, names: Sequence[str]) -> str:
    if isinstance(key, str):
        return "{0}"
    if isinstance(key, tuple):
        return f"[{','.join(f'{{{place}}}' for place in range(len(names)))}]"
    fields = sorted((name, place) for place, name in enumerate(names))
    return f"{{{{{','.join(f'{json.dumps(name)}:{{{place}}}' for name, place in fields)}}}}}"
