"""Finds the commit hooks that come right after one another: what they send goes out in one round trip."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from weakref import WeakKeyDictionary

from django.db.backends.base.base import BaseDatabaseWrapper

#: Of each connection the list of hooks to which the latest of ours is added. Django empties it as it runs
#: them, and leaves it as it is when the transaction is rolled back.
_lists: WeakKeyDictionary[BaseDatabaseWrapper, list[Any]] = WeakKeyDictionary()


def note(connection: BaseDatabaseWrapper) -> list[Any] | None:
    """Note and return where a hook will stand that is about to be registered; None, where it runs at once.

    The list of a transaction that was rolled back is forgotten by this: nothing in it is ever sent.
    """
    if not connection.in_atomic_block:
        _lists.pop(connection, None)
        return None
    hooks: list[Any] = connection.run_on_commit
    _lists[connection] = hooks
    return hooks


def behind(hook: Any, own: list[Any] | None, connection: BaseDatabaseWrapper) -> Iterator[Any]:
    """The hooks behind ``hook``, which runs now and was put into its ``own`` list, in their order.

    None where the latest list is another: a hook of the project has begun, or rolled back, a transaction.
    None where that list is not the one that Django runs: a savepoint that was rolled back has made another,
    or a test runs the hooks by itself. There ``hook`` has not been taken out of it.
    """
    if own is None or _lists.get(connection) is not own:
        return
    hooks = [entry[1] for entry in _lists.pop(connection)]
    if hook not in hooks:
        yield from hooks
