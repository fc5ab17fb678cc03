"""Reads and checks a task's options when Celery creates the task, and keeps them as one Policy."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from celery import Task
from celery.contrib.django.task import DjangoTask

from ..exceptions import ConfigurationError
from ..identity.arguments import Binder
from ..identity.rules import ALL_ARGUMENTS, DEFAULT, TASK_ID, KeyRules
from .project import hmac_key, settings
from .values import flag, nearest, one_of, whole_number, whole_seconds

Errors = tuple[type[BaseException], ...]


class _NotGiven:
    """An option that the task does not set."""

    def __repr__(self) -> str:
        return "NOT_GIVEN"


NOT_GIVEN: Any = _NotGiven()

#: Every option by the name under which a task sets it.
NAMES = (
    "key",
    "scope",
    "fingerprint",
    "mode",
    "reserve",
    "on_duplicate",
    "on_failed",
    "lease",
    "retention",
    "store_result",
    "max_crashes",
    "at_most_once",
    "permanent_errors",
    "transient_errors",
    "review_errors",
    "classify",
    "on_store_down",
    "sensitive",
)

#: Names that other libraries give our options, too far from ours to be found as a typo.
ALIASES = {
    "idempotency_key": "key",
    "permanent_exceptions": "permanent_errors",
    "transient_exceptions": "transient_errors",
    "review_exceptions": "review_errors",
}

#: Longest task name that the ledger can hold.
NAME_LIMIT = 255

_FOREIGN = ("celery.", "django_idempotent_tasks.", "builtins")
_CELERYS = frozenset(dir(DjangoTask)) | frozenset(dir(Task))


@dataclass(frozen=True)
class Policy:
    """One task's validated options; durations in whole seconds."""

    key_rules: KeyRules
    on_duplicate: str
    on_failed: str
    lease: int
    retention: int
    store_result: bool
    max_crashes: int
    permanent_errors: Errors
    transient_errors: Errors
    review_errors: Errors
    classify: Callable[[BaseException], object] | None
    on_store_down: str
    sensitive: frozenset[str]
    mode: str = "leased"
    reserve: bool = False
    at_most_once: bool = False


def named_options(task: type, *, but: type) -> dict[str, Any]:
    """The options of ours that a task's own classes set, without those of ``but`` and its bases, by name."""
    own = [kind for kind in task.__mro__ if not issubclass(but, kind)]
    names = [name for name in NAMES if any(name in vars(kind) for kind in own)]
    return {name: inspect.getattr_static(task, name) for name in names}


def _given(task: type, name: str) -> Any:
    value = inspect.getattr_static(task, name, NOT_GIVEN)
    return value.__func__ if isinstance(value, staticmethod) else value


def read_policy(task: type) -> Policy:
    """The policy of a task class.

    Raises :class:`ConfigurationError` naming the option, what is wrong with it and what to write.
    Callables are stored back unbound, as staticmethods, so that they never receive ``self``.
    """
    return _Reader(task).policy()


class _Reader:
    """Reads and checks one task class."""

    def __init__(self, task: type) -> None:
        self.task = task
        self.label = str(getattr(task, "name", None) or f"{task.__module__}.{task.__qualname__}")

    def policy(self) -> Policy:
        if len(self.label) > NAME_LIMIT:
            raise self._wrong("name", f"is over {NAME_LIMIT} characters; give the task a shorter one.")
        self._refuse_typos()
        sensitive = frozenset(self._argument_names("sensitive", self._get("sensitive", ())))
        scope = self._argument_or_callable("scope")
        if scope in sensitive:
            raise self._wrong(
                "scope", f"names the sensitive argument {scope!r}: a scope is stored and shown."
            )
        return Policy(
            key_rules=KeyRules(
                key=self._key(),
                scope=scope,
                fingerprint=self._fingerprint(),
                binder=self.binder,
                sensitive=sensitive,
                hmac_key=hmac_key,
                redact=lambda: settings().redact,
            ),
            mode=self._choice("mode", "leased", "atomic"),
            at_most_once=self._at_most_once(),
            on_duplicate=self._choice("on_duplicate", "skip", "replay", "raise"),
            on_failed=self._choice("on_failed", "rerun", "block"),
            lease=self._duration("lease", settings().lease, least=1),
            retention=self._duration("retention", settings().retention, least=0),
            store_result=self._flag("store_result", default=True),
            max_crashes=self._count("max_crashes", settings().max_crashes),
            permanent_errors=self._errors("permanent_errors"),
            transient_errors=self._errors("transient_errors"),
            review_errors=self._errors("review_errors"),
            classify=self._callable("classify"),
            on_store_down=self._choice("on_store_down", "retry", "raise"),
            sensitive=sensitive,
            reserve=self._reserve(sensitive),
        )

    @cached_property
    def binder(self) -> Binder:
        run = inspect.getattr_static(self.task, "run")
        if isinstance(run, staticmethod):
            return Binder(run.__func__, skip_first=False)
        return Binder(run, skip_first=True)

    def _get(self, name: str, default: Any) -> Any:
        value = _given(self.task, name)
        return default if value is NOT_GIVEN else value

    def _named(self, name: str) -> str:
        return f"Task {self.label}: option {name!r}"

    def _wrong(self, name: str, problem: str) -> ConfigurationError:
        return ConfigurationError(f"{self._named(name)} {problem}")

    def _refuse_typos(self) -> None:
        for name in self._own_names():
            if name.startswith("_") or name in _CELERYS or name in NAMES:
                continue
            guess = ALIASES.get(name) or nearest(name, NAMES, within=2)
            if guess is not None:
                raise self._wrong(name, f"does not exist. Did you mean {guess!r}?")

    def _own_names(self) -> set[str]:
        """The names that the project's own classes set, without Celery's and ours."""
        own = (kind for kind in self.task.__mro__ if not kind.__module__.startswith(_FOREIGN))
        return {name for kind in (self.task, *own) for name in vars(kind)}

    def _at_most_once(self) -> bool:
        wanted = self._flag("at_most_once", default=False)
        if wanted and self._get("mode", "leased") == "atomic":
            raise self._wrong(
                "at_most_once",
                "is about effects outside the database; an atomic task has none: mode='leased'.",
            )
        return wanted

    def _reserve(self, sensitive: frozenset[str]) -> bool:
        reserve = self._flag("reserve", default=False)
        if reserve and sensitive:
            raise self._wrong(
                "reserve", "stores the call to send it again, 'sensitive' forbids that: pass an id instead."
            )
        return reserve

    def _key(self) -> Any:
        value = self._get("key", ALL_ARGUMENTS)
        if value is TASK_ID or callable(value):
            return self._unbound("key", value)
        if value is ALL_ARGUMENTS:
            if not self.binder.names:
                raise self._wrong("key", "must be stated for a task without parameters: key=() or TASK_ID.")
            return value
        if isinstance(value, str):
            return self._argument_names("key", (value,))[0]
        return self._argument_names("key", value)

    def _fingerprint(self) -> Any:
        value = self._get("fingerprint", DEFAULT)
        if value is DEFAULT or value is None:
            return value
        if callable(value):
            return self._unbound("fingerprint", value)
        return self._argument_names("fingerprint", (value,) if isinstance(value, str) else value)

    def _argument_or_callable(self, name: str) -> Any:
        value = self._get(name, None)
        if value is None:
            return None
        if callable(value):
            return self._unbound(name, value)
        if not isinstance(value, str):
            raise self._wrong(name, f"must be an argument's name or a callable, not {value!r}.")
        return self._argument_names(name, (value,))[0]

    def _callable(self, name: str) -> Callable[[BaseException], object] | None:
        value = self._get(name, None)
        if value is not None and not callable(value):
            raise self._wrong(name, f"must be a callable, not {value!r}.")
        return None if value is None else self._unbound(name, value)

    def _unbound(self, name: str, value: Any) -> Any:
        if inspect.isfunction(value):
            setattr(self.task, name, staticmethod(value))
        return value

    def _argument_names(self, name: str, value: Any) -> tuple[str, ...]:
        # No sets: their order differs from process to process, and so would the key.
        if not isinstance(value, tuple | list) or not all(isinstance(item, str) for item in value):
            raise self._wrong(name, f"must name arguments (a string or a tuple of strings), not {value!r}.")
        for item in value:
            if item not in self.binder.names and not self.binder.accepts_any_keyword:
                known = ", ".join(self.binder.names) or "none"
                raise self._wrong(
                    name, f"names {item!r}, which is no argument of the task (it has: {known})."
                )
        return tuple(value)

    def _choice(self, name: str, default: str, *others: str) -> str:
        return one_of((default, *others), self._get(name, default), name=self._named(name))

    def _duration(self, name: str, default: int, *, least: int) -> int:
        return whole_seconds(self._get(name, default), name=self._named(name), least=least)

    def _flag(self, name: str, *, default: bool) -> bool:
        return flag(self._get(name, default), name=self._named(name))

    def _count(self, name: str, default: int) -> int:
        return whole_number(self._get(name, default), name=self._named(name), least=1)

    def _errors(self, name: str) -> Errors:
        value = self._get(name, ())
        classes: Iterable[Any] = (value,) if isinstance(value, type) else value
        if not isinstance(classes, tuple | list) or not all(
            isinstance(item, type) and issubclass(item, BaseException) for item in classes
        ):
            raise self._wrong(name, f"must be a tuple of exception classes, not {value!r}.")
        return tuple(classes)
