"""Finds the commit hooks that come right after one another: what they send goes out in one round trip."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from weakref import WeakKeyDictionary

from django.db.backends.base.base import BaseDatabaseWrapper

#: Of each connection the list of hooks in which the latest of ours stands: Django empties it as it runs them.
_lists: WeakKeyDictionary[BaseDatabaseWrapper, list[Any]] = WeakKeyDictionary()


def noted(connection: BaseDatabaseWrapper) -> None:
    """Note where a hook stands that was just registered."""
    if connection.in_atomic_block:
        _lists[connection] = connection.run_on_commit


def behind(hook: Any, connection: BaseDatabaseWrapper) -> Iterator[Any]:
    """The hooks behind ``hook``, which runs now, in their order.

    None where the list is not the one that Django runs: a savepoint that was rolled back has made another,
    or a test runs the hooks by itself. There ``hook`` has not been taken out of it.
    """
    hooks = [entry[1] for entry in _lists.pop(connection, ())]
    if hook not in hooks:
        yield from hooks
