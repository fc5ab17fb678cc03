"""Computes a call's identity: its digest, scope, key text and fingerprint."""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import sha256
from inspect import isawaitable
from typing import Any, cast
from uuid import NAMESPACE_OID, UUID, uuid5

from ..exceptions import ConfigurationError, InvalidKey
from .arguments import as_sent
from .canonical import canonical_json, is_plain
from .names import first_name
from .rules import ALL_ARGUMENTS, DEFAULT, MISSING, TASK_ID, UNSET, Constant, Function, KeyRules, Names
from .text import HIDDEN, arguments_text, for_people, hidden_text
from .usual import usual_of

SCOPE_LENGTH = 120
#: How the keys of periodic occurrences begin.
BEAT = "beat:"

_MISSING_TEXT = '{"!missing":true}'
_NOT_IN_SCOPE = re.compile(r"[\x00\ud800-\udfff]")
_MISSING_FOR_PEOPLE = "(missing)"


@dataclass(frozen=True, slots=True)
class Identity:
    """Names one piece of work; computed once, where the call is made.

    ``digest`` is the first 16 bytes of SHA-256 over [task name, scope, key value]; ``key_text`` is
    a shortened form for people; ``fingerprint`` is None where the payload is not compared.
    """

    digest: UUID
    scope: str | None
    key_text: str
    fingerprint: UUID | None


def identify(
    task_name: str,
    rules: KeyRules,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    task_id: str,
    idempotency_key: object = UNSET,
    scope: object = UNSET,
) -> Identity:
    """Return the identity of one call, the same from the caller's arguments and from those that arrive.

    Raises InvalidKey, naming the place, when a value has no canonical form or cannot be sent, when a key
    is empty, and when a function of the rules raises or gives a coroutine; TypeError when the arguments
    do not fit the task.
    """
    if idempotency_key is UNSET and scope is UNSET:
        usual = _usual(task_name, rules, args or (), kwargs or {})
        if usual is not None:
            return usual

    call = _Call(task_name, rules, args, kwargs)
    scope_text = call.scope(scope)
    value, key_text = call.key(idempotency_key, task_id)
    is_stated = idempotency_key is not UNSET or rules.key is TASK_ID
    digest = _digest_of(task_name, scope_text, value, secret=call.secret(None if is_stated else rules.key))
    return Identity(
        digest=digest,
        scope=scope_text,
        key_text=for_people(hidden_text(digest) if key_text == HIDDEN else key_text),
        fingerprint=call.fingerprint(stated=idempotency_key is not UNSET),
    )


def _usual(
    task_name: str, rules: KeyRules, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Identity | None:
    """The identity of a call with plain arguments; None for one that needs a closer look."""
    usual = usual_of(rules)
    if usual is None or rules.redact() is not None:
        return None
    try:
        texts = usual.texts(args, kwargs) if is_plain(kwargs) and is_plain([*args]) else None
    except RecursionError:
        return None
    return None if texts is None else usual_identity(task_name, None, texts)


def usual_identity(task_name: str, scope: str | None, texts: tuple[str, str]) -> Identity:
    """The identity in this scope of a call whose key has these canonical and shown texts."""
    value, shown = texts
    return Identity(_digest_of(task_name, scope, value), scope, for_people(shown), None)


def stated_digest(task_name: str, *, idempotency_key: object, scope: object = None) -> UUID:
    """Return the digest of a key that was given per call, without the call's arguments.

    Raises InvalidKey as :func:`identify` does.
    """
    value = _filled(idempotency_key, where=f"idempotency_key of {task_name}")
    return _digest_of(task_name, _scope_text(scope, where=f"scope of {task_name}"), value)


def sent_only(digest: UUID) -> UUID:
    """The digest of a row that only records that beat sent a call; workers claim the call's own key."""
    return uuid5(NAMESPACE_OID, f"sent {digest.hex}")


def row_identity(task_name: str, identity: Identity) -> Identity:
    """The identity that a worker claims for a row: for a "sent" row of beat, that of the call's own key."""
    if not identity.key_text.startswith(BEAT):
        return identity
    digest = stated_digest(task_name, idempotency_key=identity.key_text, scope=identity.scope)
    return replace(identity, digest=digest) if sent_only(digest) == identity.digest else identity


class _Call:
    """One call, with its arguments as they arrive in the worker."""

    __slots__ = ("args", "bound", "kwargs", "rules", "task")

    def __init__(self, task: str, rules: KeyRules, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        self.task = task
        self.rules = rules
        self.args, self.kwargs = as_sent(rules.binder, args or (), kwargs or {}, task=task)
        self.bound = rules.binder(self.args, self.kwargs)

    def key(self, stated: object, task_id: str) -> tuple[str, str]:
        """Return the canonical text of the key value, and its form for people."""
        source = self.rules.key
        if stated is not UNSET or source is TASK_ID:
            given = source if stated is UNSET else stated
            return self._stated(given, task_id, where=f"idempotency_key of {self.task}")
        if callable(source):
            value, where = self._value_of(source, "key")
            text, shown = self._stated(value, task_id, where=where)
            return text, HIDDEN if self.rules.sensitive or self.rules.redact() else f"key={shown}"
        return self._text_of(source), self._shown(source)

    def scope(self, stated: object) -> str | None:
        source = self.rules.scope
        if stated is not UNSET:
            return _scope_text(stated, where=f"scope of {self.task}")
        if source is None:
            return None
        value, where = self._value_of(source, "scope")
        return None if value is MISSING else _scope_text(value, where=where)

    def fingerprint(self, *, stated: bool) -> UUID | None:
        source = self.rules.fingerprint
        if source is DEFAULT:
            return _digest(self._insensitive_text()) if stated else None
        if source is None:
            return None
        secret = self.secret(source)
        if callable(source):
            value, where = self._value_of(source, "fingerprint")
            return _digest(_filled(value, where=where), secret=secret)
        return _digest(self._text_of(source), secret=secret)

    def secret(self, source: object) -> str:
        """The HMAC key for a digest over ``source``; empty where no sensitive argument is in it."""
        return self.rules.hmac_key() if source is not None and self.rules.hide(source) else ""

    def _insensitive_text(self) -> str:
        """The canonical text of all arguments but the sensitive ones, also of those in ``**kwargs``."""
        hidden, extra = self.rules.sensitive, self.rules.binder.any_keyword
        if not hidden:
            return self._text_of(ALL_ARGUMENTS)
        kept = {name: value for name, value in self.bound.items() if name not in hidden}
        if extra in kept:
            kept[extra] = {name: value for name, value in self._extra().items() if name not in hidden}
        return canonical_json(kept, where=f"arguments of {self.task}")

    def _stated(self, value: object, task_id: str, *, where: str) -> tuple[str, str]:
        if value is TASK_ID:
            return f'{{"!task_id":{canonical_json(task_id, where="task id")}}}', task_id
        text = _filled(value, where=where)
        return text, str.__str__(value) if isinstance(value, str) else text

    def _text_of(self, source: Constant | Names) -> str:
        if isinstance(source, Constant):
            return canonical_json(self.bound, where=f"arguments of {self.task}")
        if isinstance(source, str):
            return self._argument_text(source)
        return f"[{','.join(map(self._argument_text, source))}]"

    def _argument_text(self, name: str) -> str:
        value, where = self._value_of(name, "key")
        return _MISSING_TEXT if value is MISSING else canonical_json(value, where=where)

    def _argument(self, name: str) -> object:
        if name in self.bound:
            return self.bound[name]
        if self.rules.binder.any_keyword is None:
            raise ConfigurationError(f"{self.task} has no argument {name!r}, which its options name")
        return self._extra().get(name, MISSING)

    def _extra(self) -> dict[str, object]:
        return cast("dict[str, object]", self.bound.get(self.rules.binder.any_keyword or "", {}))

    def _value_of(self, source: str | Function, option: str) -> tuple[object, str]:
        if not callable(source):
            return self._argument(source), f"argument {source!r} of {self.task}"
        where = f"{option} function of {self.task}"
        try:
            result = source(*self.args, **self.kwargs)
        except Exception as error:
            raise InvalidKey(
                f"{where}: it raised {type(error).__name__}; it must return a value for every call"
            ) from error
        if isawaitable(result):
            getattr(result, "close", bool)()  # a coroutine that is never awaited would warn
            raise InvalidKey(f"{where}: it is asynchronous; write it as a plain function")
        return result, where

    def _shown(self, source: Constant | Names) -> str:
        listed = self.bound if isinstance(source, Constant) else source
        names: list[str] = []
        for name in (listed,) if isinstance(listed, str) else listed:
            names.extend(self._extra() if name == self.rules.binder.any_keyword else (name,))
        return arguments_text(names, self._for_people(names))

    def _for_people(self, names: list[str]) -> Mapping[str, object]:
        """The values that people may see; none where ``redact`` fails."""
        redact = self.rules.redact()
        if redact is None:
            return {name: self._plain(name) for name in names if name not in self.rules.sensitive}
        every = {**self.bound, **self._extra(), **{name: self._plain(name) for name in names}}
        every.pop(self.rules.binder.any_keyword or "", None)
        try:
            given = redact(self.task, {name: every[name] for name in every.keys() - self.rules.sensitive})
        except Exception:  # noqa: BLE001  a project's function may raise anything
            return {}
        return given if isinstance(given, Mapping) else {}

    def _plain(self, name: str) -> object:
        value = self._argument(name)
        return _MISSING_FOR_PEOPLE if value is MISSING else value


def _filled(value: object, *, where: str) -> str:
    text = canonical_json(value, where=where)
    if text in {"null", '""'}:
        raise InvalidKey(f"{where}: it is empty; give a value that names this piece of work")
    return text


def _scope_text(value: object, *, where: str) -> str | None:
    kind = type(value)
    if value is None:
        return None
    if issubclass(kind, str):
        text = str.__str__(value)
    elif issubclass(kind, int) and kind is not bool:
        text = canonical_json(value, where=where)
    elif issubclass(kind, UUID):
        text = str(value)
    else:
        raise InvalidKey(
            f"{where}: a {kind.__qualname__} cannot be a scope; give a str, an int, a UUID or None"
        )
    problem = scope_problem(text)
    if problem is not None:
        raise InvalidKey(f"{where}: {problem}")
    return text


def scope_problem(text: str) -> str | None:
    """Why a text cannot be a scope; None where it can."""
    if len(text) > SCOPE_LENGTH:
        return f"a scope has at most {SCOPE_LENGTH} characters; give the tenant's id"
    if _NOT_IN_SCOPE.search(text):
        return "NUL and lone surrogates cannot be stored in a scope; give the tenant's id"
    return None


def _digest_of(task_name: str, scope: str | None, value: str, *, secret: str = "") -> UUID:
    return _digest(f"{opening(first_name(task_name), scope)}{value}]", secret=secret)


@lru_cache(maxsize=1000)
def opening(name: str, scope: str | None) -> str:
    """What the digests of a task's calls in one scope have in common: how their text begins."""
    return f"[{canonical_json(name, where='task name')},{canonical_json(scope, where='scope')},"


def _digest(text: str, *, secret: str = "") -> UUID:
    data = text.encode("ascii")
    hashed = hmac.new(secret.encode(), data, sha256) if secret else sha256(data)
    return UUID(bytes=hashed.digest()[:16])
