"""Identifies many calls of a task whose key is made of plain arguments; does once what all have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any
from uuid import UUID

from .canonical import plain_text
from .key import Identity, opening
from .names import first_name
from .rules import DEFAULT, KeyRules
from .text import for_people, value_text

_DIGEST = 16
#: An int below it has a short text, which is its canonical one.
_LARGE = 2**64


class Usual:
    """What :func:`identify` would say of calls in one scope, whose arguments are plain."""

    def __init__(self, task: str, rules: KeyRules, names: tuple[str, ...], scope: str | None) -> None:
        self._bind = rules.binder.bind
        self._names = names
        self._is_one = isinstance(rules.key, str)
        self._scope = scope
        self._opening = opening(first_name(task), scope)

    @classmethod
    def of(cls, task: str, rules: KeyRules, *, scope: str | None) -> Usual | None:
        """None for rules by which a call has to be looked at more closely."""
        if not isinstance(rules.key, str | tuple) or rules.scope is not None or rules.sensitive:
            return None
        if rules.redact() is not None or not (rules.fingerprint is None or rules.fingerprint is DEFAULT):
            return None
        names = (rules.key,) if isinstance(rules.key, str) else rules.key
        single = {*rules.binder.names} - rules.binder.collecting
        return cls(task, rules, names, scope) if single.issuperset(names) else None

    def identity(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Identity | None:
        """The identity of a call with these plain arguments; None for a value that needs a closer look."""
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
        text = texts[0] if self._is_one else f"[{','.join(texts)}]"
        hashed = sha256(f"{self._opening}{text}]".encode("ascii")).digest()
        digest = UUID(int=int.from_bytes(hashed[:_DIGEST], "big"))
        return Identity(digest, self._scope, for_people(", ".join(shown)), None)
