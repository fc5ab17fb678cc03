"""Checks the options of a reserved call, which would fail after the commit, where nobody sees it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from math import isfinite
from typing import Any

from kombu import compression
from kombu.serialization import registry as serializers  # type: ignore[attr-defined]  # not in the stubs

from ..conf.values import LONGEST
from ..exceptions import ConfigurationError
from ..messages.address import moment


def check_options(task: Any, options: Mapping[str, Any]) -> None:
    """Raise :class:`ConfigurationError`, naming the first option with which no broker takes a message."""
    for name, problem_of in _CHECKS.items():
        value = options.get(name)
        problem = None if value is None else problem_of(value)
        if problem is not None:
            msg = f"{task.name}: option {name!r} {problem}, not {value!r}."
            raise ConfigurationError(msg)


def _serializer_problem(name: Any) -> str | None:
    known = serializers.name_to_type
    return None if name in known else f"must be one of {', '.join(sorted(known))}"


def _compression_problem(name: Any) -> str | None:
    try:
        compression.get_encoder(name)
    except (KeyError, TypeError):
        return f"must be one of {', '.join(sorted(compression.encoders()))} or an alias"
    return None


def _priority_problem(value: Any) -> str | None:
    return None if isinstance(value, int) and not isinstance(value, bool) else "must be a whole number"


def _seconds_problem(value: Any) -> str | None:
    if isinstance(value, int | float) and isfinite(value) and abs(value) <= LONGEST:
        return None
    return f"must be seconds, at most {LONGEST} (31 years)"


def _moment_problem(value: Any) -> str | None:
    try:
        found = moment(value)
    except ValueError:
        found = None
    if found is None:
        return "must be a datetime or its ISO text"
    if found - datetime.now(UTC) > timedelta(seconds=LONGEST):
        return "must be within 31 years"
    return None


def _expires_problem(value: Any) -> str | None:
    if isinstance(value, datetime | str):
        return _moment_problem(value)
    problem = _seconds_problem(value)
    return problem and f"{problem}, a datetime or its ISO text"


#: A wrong value here would fail where nobody sees it: after the commit, and at each try of the sweeper.
_CHECKS: dict[str, Callable[[Any], str | None]] = {
    "serializer": _serializer_problem,
    "compression": _compression_problem,
    "priority": _priority_problem,
    "countdown": _seconds_problem,
    "eta": _moment_problem,
    "expires": _expires_problem,
}
