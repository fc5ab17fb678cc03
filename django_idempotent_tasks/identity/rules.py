"""Holds a task's rules for its key, scope and fingerprint, as its options state them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, cast, final

from .arguments import Binder


@final
class Constant:
    """A special value of an option, such as TASK_ID: the same object also after copy and pickle.

    It has no canonical form, so that it never passes for a key value.
    """

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name

    def __reduce__(self) -> str:
        return self._name


ALL_ARGUMENTS = Constant("ALL_ARGUMENTS")
#: ``key=TASK_ID``: every call is work of its own, only redeliveries of one call are duplicates.
TASK_ID = Constant("TASK_ID")
DEFAULT = Constant("DEFAULT")
UNSET = Constant("UNSET")
MISSING = Constant("MISSING")

Names: TypeAlias = "str | tuple[str, ...]"
Function: TypeAlias = Callable[..., object]
Redact: TypeAlias = Callable[[str, dict[str, Any]], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRules:
    """How a task's calls are told apart. Names are those of parameters, or of keywords that the task takes.

    ``key_text`` never shows the arguments in ``sensitive``, nor a key function's value for a task that
    has any; of other arguments it shows what ``redact`` leaves. A digest in which a sensitive argument
    takes part is an HMAC with ``hmac_key``: the plain digest of a short secret, such as a PIN, is found
    by trying all of them.
    """

    binder: Binder
    key: Constant | Names | Function = ALL_ARGUMENTS
    scope: str | Function | None = None
    fingerprint: Constant | Names | Function | None = DEFAULT
    sensitive: frozenset[str] = frozenset()
    hmac_key: Callable[[], str] = str
    redact: Callable[[], Redact | None] = lambda: None

    def hide(self, source: object) -> bool:
        """Whether a sensitive argument takes part in what ``source`` (names or a function) gives."""
        if isinstance(source, Constant) or callable(source):
            return bool(self.sensitive)
        names = {source} if isinstance(source, str) else {*cast("tuple[str, ...]", source)}
        return bool(self.sensitive) and not names.isdisjoint({*self.sensitive, self.binder.any_keyword})
