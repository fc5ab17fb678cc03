"""Reads and checks a task's options when Celery creates the task, and keeps them as one Policy."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from celery import Task
from celery.contrib.django.task import DjangoTask

from ..identity.arguments import Binder
from ..identity.rules import ALL_ARGUMENTS, DEFAULT, TASK_ID, KeyRules
from .follow_ups import FOLLOW_UP, LAST, FollowUpOptions
from .near_misses import meant_option
from .project import DURABLE, hmac_key, settings
from .shadow import ShadowOptions
from .values import classes

Errors = tuple[type[BaseException], ...]


#: Every option by the name under which a task sets it.
NAMES = (
    "key",
    "scope",
    "fingerprint",
    "mode",
    "reserve",
    "on_duplicate",
    "keep",
    "debounce",
    "debounce_max",
    "on_failed",
    "lease",
    "retention",
    "store_result",
    "max_crashes",
    "at_most_once",
    "permanent_errors",
    "transient_errors",
    "review_errors",
    "expected_errors",
    "classify",
    "on_store_down",
    "sensitive",
    "aliases",
    "enforce",
)

#: Longest task name that the ledger can hold.
NAME_LIMIT = 255

_FOREIGN = ("celery.", "django_idempotent_tasks.", "builtins")
_CELERYS = frozenset(dir(DjangoTask)) | frozenset(dir(Task))


@dataclass(frozen=True)
class Policy:
    """One task's validated options; durations in whole seconds. ``throws`` is Celery's own option."""

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
    keep: str = LAST
    debounce: int = 0
    debounce_max: int = 0
    expected_errors: Errors = ()
    aliases: tuple[str, ...] = ()
    throws: Errors = ()
    enforce: bool = True

    @property
    def follows(self) -> bool:
        """Whether a call that comes while another one runs is run after it: ``on_duplicate="follow_up"``."""
        return self.on_duplicate == FOLLOW_UP

    @property
    def claims_durably(self) -> bool:
        """Whether claims survive a crash of the database: always where a body may run beside no other."""
        return settings().claim_durability == DURABLE or self.follows


def named_options(task: type, *, but: type) -> dict[str, Any]:
    """The options of ours that a task's own classes set, without those of ``but`` and its bases, by name."""
    own = [kind for kind in task.__mro__ if not issubclass(but, kind)]
    names = [name for name in NAMES if any(name in vars(kind) for kind in own)]
    return {name: inspect.getattr_static(task, name) for name in names}


def read_policy(task: type) -> Policy:
    """The policy of a task class.

    Raises :class:`ConfigurationError` naming the option, what is wrong with it and what to write.
    Callables are stored back unbound, as staticmethods, so that they never receive ``self``.
    """
    return _Reader(task).policy()


class _Reader(FollowUpOptions, ShadowOptions):
    """Reads and checks one task class."""

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
            key_rules=self._key_rules(scope, sensitive),
            mode=self._choice("mode", "leased", "atomic"),
            at_most_once=self._at_most_once(),
            on_duplicate=self._on_duplicate(sensitive),
            **self._of_follow_ups(),
            on_failed=self._choice("on_failed", "rerun", "block"),
            lease=self._duration("lease", settings().lease, least=1),
            retention=self._retention(),
            store_result=self._flag("store_result", default=True),
            max_crashes=self._count("max_crashes", settings().max_crashes),
            permanent_errors=self._errors("permanent_errors"),
            transient_errors=self._errors("transient_errors"),
            review_errors=self._errors("review_errors"),
            expected_errors=self._errors("expected_errors"),
            throws=classes(getattr(self.task, "throws", ())),
            classify=self._callable("classify"),
            on_store_down=self._choice("on_store_down", "retry", "raise"),
            sensitive=sensitive,
            reserve=self._reserve(sensitive),
            aliases=self._aliases(),
            enforce=self._enforce(),
        )

    def _key_rules(self, scope: Any, sensitive: frozenset[str]) -> KeyRules:
        return KeyRules(
            key=self._key(),
            scope=scope,
            fingerprint=self._fingerprint(),
            binder=self.binder,
            sensitive=sensitive,
            hmac_key=hmac_key,
            redact=lambda: settings().redact,
        )

    @cached_property
    def binder(self) -> Binder:
        run = inspect.getattr_static(self.task, "run")
        if isinstance(run, staticmethod):
            return Binder(run.__func__, skip_first=False)
        return Binder(run, skip_first=True)

    def _aliases(self) -> tuple[str, ...]:
        names = self._get("aliases", ())
        listed = isinstance(names, tuple | list) and all(isinstance(name, str) and name for name in names)
        if not listed or self.label in names or any(len(name) > NAME_LIMIT for name in names):
            raise self._wrong(
                "aliases", f"must be a tuple of the task's earlier names, the oldest first, not {names!r}."
            )
        if names and self._follows:
            raise self._wrong(
                "aliases", "cannot follow on_duplicate='follow_up': keep the old name, by name= of the task."
            )
        return tuple(names)

    def _refuse_typos(self) -> None:
        for name in self._own_names():
            if name.startswith("_") or name in _CELERYS or name in NAMES:
                continue
            meant = meant_option(name, NAMES)
            if meant is not None:
                raise self._wrong(name, f"does not exist. Did you mean {meant}?")

    def _own_names(self) -> set[str]:
        """The names that the project's own classes set, without Celery's and ours."""
        own = (kind for kind in self.task.__mro__ if not kind.__module__.startswith(_FOREIGN))
        return {name for kind in (self.task, *own) for name in vars(kind)}

    def _at_most_once(self) -> bool:
        wanted = self._flag("at_most_once", default=False)
        if wanted and self._get("mode", "leased") == "atomic":
            raise self._wrong(
                "at_most_once",
                "is about effects outside the database; an atomic task has none: set mode='leased'.",
            )
        if wanted and self._follows:
            raise self._wrong(
                "at_most_once",
                "leaves an effect in doubt to a person, and on_duplicate='follow_up' would run again all the"
                " same: leave one of them out.",
            )
        return wanted

    def _reserve(self, sensitive: frozenset[str]) -> bool:
        reserve = self._flag("reserve", default=False)
        if reserve and sensitive:
            raise self._wrong("reserve", "must store the call, 'sensitive' forbids that: pass an id instead.")
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
        # Follow-ups are asked for with other arguments, of which the newest are the ones to run with.
        value = self._get("fingerprint", None if self._follows else DEFAULT)
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

    def _errors(self, name: str) -> Errors:
        value = self._get(name, ())
        classes: Iterable[Any] = (value,) if isinstance(value, type) else value
        if not isinstance(classes, tuple | list) or not all(
            isinstance(item, type) and issubclass(item, BaseException) for item in classes
        ):
            raise self._wrong(name, f"must be a tuple of exception classes, not {value!r}.")
        return tuple(classes)
