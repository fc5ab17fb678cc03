"""Reads one option of a task class at a time, and names task and option in what is wrong with it."""

from __future__ import annotations

import inspect
from typing import Any

from ..exceptions import ConfigurationError
from .values import flag, one_of, whole_number, whole_seconds


class _NotGiven:
    """An option that the task does not set."""

    def __repr__(self) -> str:
        return "NOT_GIVEN"


NOT_GIVEN: Any = _NotGiven()


def _given(task: type, name: str) -> Any:
    value = inspect.getattr_static(task, name, NOT_GIVEN)
    return value.__func__ if isinstance(value, staticmethod) else value


class OptionReader:
    """The options that one task class sets."""

    def __init__(self, task: type) -> None:
        self.task = task
        self.label = str(getattr(task, "name", None) or f"{task.__module__}.{task.__qualname__}")

    def _get(self, name: str, default: Any) -> Any:
        value = _given(self.task, name)
        return default if value is NOT_GIVEN else value

    def _named(self, name: str) -> str:
        return f"Task {self.label}: option {name!r}"

    def _wrong(self, name: str, problem: str) -> ConfigurationError:
        return ConfigurationError(f"{self._named(name)} {problem}")

    def _choice(self, name: str, default: str, *others: str) -> str:
        return one_of((default, *others), self._get(name, default), name=self._named(name))

    def _duration(self, name: str, default: int, *, least: int) -> int:
        return whole_seconds(self._get(name, default), name=self._named(name), least=least)

    def _flag(self, name: str, *, default: bool) -> bool:
        return flag(self._get(name, default), name=self._named(name))

    def _count(self, name: str, default: int) -> int:
        return whole_number(self._get(name, default), name=self._named(name), least=1)
