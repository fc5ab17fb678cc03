"""Knows the earlier names of renamed tasks: calls under any of them meet the same keys.

A digest holds the task's name. That of a renamed task stays made of its first name, so that what was sent
under the old name and what is sent under the new one are one piece of work.
"""

from __future__ import annotations

from collections.abc import Sequence

#: The first name of each renamed task by its present name, and by each earlier one.
_first: dict[str, str] = {}


def renamed(aliases: Sequence[str], *, to: str) -> None:
    """Note that a task had these names before, the oldest first."""
    for name in (*aliases, to):
        _first[name] = aliases[0]


def first_name(task: str) -> str:
    """The name that digests are made of: the oldest of a renamed task, else its own."""
    return _first.get(task, task)


def is_same(task: str, other: str) -> bool:
    """Whether two names are of one task."""
    return task == other or first_name(task) == first_name(other)


def all_names(task: str) -> list[str]:
    """The name, and the others of its task."""
    return sorted({task, *(name for name in _first if is_same(name, task))})
