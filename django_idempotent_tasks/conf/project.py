"""Reads and checks the settings dict ``IDEMPOTENT_TASKS``, again whenever a test overrides it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache
from importlib.util import find_spec
from typing import Any, cast

from django.conf import settings as django_settings
from django.core.signals import setting_changed
from django.utils.module_loading import import_string

from ..exceptions import ConfigurationError
from .values import flag, nearest, one_of, whole_number, whole_seconds

DAY = 24 * 60 * 60
NAME = "IDEMPOTENT_TASKS"
#: What can be told of tasks' runs: the library that each needs, and its name for pip.
TELEMETRY = {
    "prometheus": ("prometheus_client", "prometheus-client"),
    "opentelemetry": ("opentelemetry", "opentelemetry-api"),
    "sentry": ("sentry_sdk", "sentry-sdk"),
}
#: Values of ``CLAIM_DURABILITY``: whether a claim waits for the database's disk.
DURABLE, FAST = "durable", "fast"
#: Fewest characters: a shorter key could be found by trying.
HMAC_KEY_LENGTH = 16
#: The value of ``ADOPTING`` while what was sent to second queues is still to be taken from there.
ENDING = "ending"


@dataclass(frozen=True, slots=True)
class Settings:
    """The validated settings; durations in whole seconds, sizes in characters."""

    database: str = "default"
    schema: str | None = None
    keep_connections: bool = False
    claim_durability: str = DURABLE
    prepared_statements: bool = True
    lease: int = 60
    retention: int = 7 * DAY
    dead_letter_retention: int = 90 * DAY
    redelivery_window: int = DAY
    republish_after: int = 300
    max_crashes: int = 3
    max_payload: int = 1024 * 1024
    max_result: int = 64 * 1024
    sweeper: str = "thread"
    misfire: str = "coalesce"
    guard_all: bool = False
    enforce: bool = True
    adopting: bool | str = False
    capture_all_failures: bool = False
    sync_fallback: Callable[[], bool] | bool = False
    redact: Callable[[str, dict[str, Any]], dict[str, Any]] | None = None
    hmac_key: str | None = field(default=None, repr=False)
    telemetry: tuple[str, ...] = ()


def _duration(least: int) -> Callable[[str, object], int]:
    return lambda name, value: whole_seconds(value, name=name, least=least)


def _count(least: int) -> Callable[[str, object], int]:
    return lambda name, value: whole_number(value, name=name, least=least)


def _flag(name: str, value: object) -> bool:
    return flag(value, name=name)


def _adopting(name: str, value: object) -> bool | str:
    if value is True or value is False or value == ENDING:
        return value
    msg = f"{name} must be True, {ENDING!r} or False, not {value!r}."
    raise ConfigurationError(msg)


def _flag_or_callable(name: str, value: object) -> Callable[[], bool] | bool:
    value = _imported(name, value)
    if callable(value):
        return cast("Callable[[], bool]", value)
    return _flag(name, value)


def _schema(name: str, value: object) -> str | None:
    if value is None or (isinstance(value, str) and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_$]{0,62}", value)):
        return value
    msg = f"{name} must be the name of a PostgreSQL schema, letters, digits and _, or None, not {value!r}."
    raise ConfigurationError(msg)


def _callable(name: str, value: object) -> object:
    value = _imported(name, value)
    if value is None or callable(value):
        return value
    msg = (
        f"{name} must be a function (task, arguments) -> arguments, or the dotted path of one, not {value!r}."
    )
    raise ConfigurationError(msg)


def _hmac_key(name: str, value: object) -> str | None:
    if value is None or (isinstance(value, str) and len(value) >= HMAC_KEY_LENGTH):
        return value
    # The value is a secret: the message does not quote it.
    kind = type(value).__name__
    msg = f"{name} must be a text of at least {HMAC_KEY_LENGTH} characters, or None, not this {kind}."
    raise ConfigurationError(msg)


def _telemetry(name: str, value: object) -> tuple[str, ...]:
    given = [value] if isinstance(value, str) else value
    if not isinstance(given, list | tuple):
        msg = f"{name} must be a list of {', '.join(map(repr, TELEMETRY))}, not {value!r}."
        raise ConfigurationError(msg)
    chosen = tuple(dict.fromkeys(one_of(TELEMETRY, each, name=name) for each in given))
    for each in chosen:
        library, package = TELEMETRY[each]
        if find_spec(library) is None:
            msg = f"{name} has {each!r}, which needs {library}: pip install {package}."
            raise ConfigurationError(msg)
    return chosen


def _imported(name: str, value: object) -> object:
    """The object that a dotted path names; any other value as it is."""
    if not isinstance(value, str):
        return value
    try:
        return import_string(value)
    except ImportError as error:
        msg = f"{name} cannot be imported: {error}."
        raise ConfigurationError(msg) from error


def _one_of(*choices: str) -> Callable[[str, object], str]:
    return lambda name, value: one_of(choices, value, name=name)


def _alias(name: str, value: object) -> str:
    if not isinstance(value, str) or value not in django_settings.DATABASES:
        known = ", ".join(map(repr, django_settings.DATABASES))
        msg = f"{name} must be an alias in DATABASES ({known}), not {value!r}."
        raise ConfigurationError(msg)
    return value


_CHECKS: dict[str, Callable[[str, object], Any]] = {
    "database": _alias,
    "schema": _schema,
    "keep_connections": _flag,
    "claim_durability": _one_of(DURABLE, FAST),
    "prepared_statements": _flag,
    "lease": _duration(1),
    "retention": _duration(0),
    "dead_letter_retention": _duration(0),
    "redelivery_window": _duration(0),
    "republish_after": _duration(1),
    "max_crashes": _count(1),
    "max_payload": _count(0),
    "max_result": _count(0),
    "sweeper": _one_of("thread", "off"),
    "misfire": _one_of("coalesce", "all", "skip"),
    "guard_all": _flag,
    "enforce": _flag,
    "adopting": _adopting,
    "capture_all_failures": _flag,
    "sync_fallback": _flag_or_callable,
    "redact": _callable,
    "hmac_key": _hmac_key,
    "telemetry": _telemetry,
}


def parse(given: object) -> Settings:
    """The validated settings. Raises :class:`ConfigurationError` naming the wrong entry and the remedy."""
    if not isinstance(given, Mapping):
        msg = f"{NAME} must be a dict, not {given!r}."
        raise ConfigurationError(msg)
    known = {field.name.upper(): field.name for field in fields(Settings)}
    values = {}
    for name, value in given.items():
        if name not in known:
            raise ConfigurationError(_unknown(str(name), list(known)))
        field = known[name]
        values[field] = _CHECKS[field](f"{NAME}[{name!r}]", value)
    return Settings(**values)


def _unknown(name: str, known: list[str]) -> str:
    guess = nearest(name.upper(), known, within=len(name))
    return f"{NAME} has no setting {name!r}. Did you mean {guess!r}? Known: {', '.join(known)}."


@lru_cache(maxsize=1)
def settings() -> Settings:
    """The project's settings, parsed once and again after ``override_settings``."""
    return parse(getattr(django_settings, NAME, {}))


def hmac_key() -> str:
    """The key of the HMAC over sensitive arguments: ``HMAC_KEY``, else ``SECRET_KEY``.

    While ``SECRET_KEY_FALLBACKS`` has older keys the oldest is used, so that a rotation changes no digest
    before the old key is removed.
    """
    stated = settings().hmac_key
    return stated or str([django_settings.SECRET_KEY, *django_settings.SECRET_KEY_FALLBACKS][-1])


def _reload(*, setting: str, **_kwargs: object) -> None:
    if setting in {NAME, "DATABASES"}:
        settings.cache_clear()


setting_changed.connect(_reload)
