"""Gives Celery and logging a readable error in the place of one that would hang them or make them exit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from celery.exceptions import Retry

from ..exceptions import UnreadableError
from .raised import cause_of, class_of, context_of, hides_context, is_a, is_shutdown, members_of, message_of

#: Most errors of one chain, members of one group and notes of one error that are looked at or let through.
CHAIN, MEMBERS, NOTES = 100, 100, 100

#: Names that must not be code of the project: in an error's class, and in the class of that class.
_OF_ERRORS = frozenset(
    {"__cause__", "__class__", "__context__", "__getattribute__", "__suppress_context__", "__traceback__"}
)
_OF_GROUPS = _OF_ERRORS | {"exceptions"}
_OF_CLASSES = frozenset(
    {"__eq__", "__getattr__", "__getattribute__", "__hash__", "__mro__", "__name__", "__qualname__"}
)

#: What Celery and logging read of an error; they catch ordinary exceptions there.
_READ: tuple[Callable[[Any], object], ...] = (
    str,
    repr,
    bool,
    hash,
    lambda error: error == 0,
    lambda error: error.args,
    lambda error: error.__reduce_ex__(4),
)

#: The flag of a class that was made by a ``class`` statement (``Py_TPFLAGS_HEAPTYPE``).
_HEAP = 1 << 9


def presentable(error: BaseException) -> BaseException:
    """The error itself, without a harmful chain; UnreadableError in the place of a harmful error.

    Harmful is an error that raises an exit or never ends when Celery or logging reads it.
    """
    if not _is_plain(error):
        return UnreadableError(f"{class_of(error)}: {message_of(error)[:1000]}")
    if is_a(error, Retry) and error.exc is not None and not _are_plain(error.exc):
        error.exc = presentable(error.exc)  # type: ignore[assignment]  # the stubs ask for an Exception
    if not _are_plain(error):
        error.__cause__, error.__context__ = None, None
    return error


def _are_plain(error: BaseException) -> bool:
    return all(_is_plain(each) for each in _chain(error))


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The errors that are shown with this one, at most CHAIN of them."""
    left, seen = [error], 0
    while left and seen < CHAIN:
        link, seen = left.pop(), seen + 1
        yield link
        context = None if hides_context(link) else context_of(link)
        behind = (cause_of(link), context, *members_of(link, most=MEMBERS))
        left.extend(each for each in behind if each is not None)


def _is_plain(error: BaseException) -> bool:
    """Whether reading this one error does no harm; raising an ordinary exception is no harm."""
    kind = type(error)
    of_errors = _OF_GROUPS if is_a(error, BaseExceptionGroup) else _OF_ERRORS
    if _defines(kind, of_errors) or _defines(type(kind), _OF_CLASSES):
        return False
    try:
        for read in _READ:
            with suppress(Exception):
                read(error)
        return type(kind.__module__) is str and _are_texts(getattr(error, "__notes__", []))
    except BaseException as own:
        if is_shutdown(own):
            raise
        return False


def _are_texts(notes: Any) -> bool:
    return type(notes) is list and len(notes) <= NOTES and all(type(note) is str for note in notes)


def _defines(kind: type, names: frozenset[str]) -> bool:
    """Whether one of the class's bases, Python's own left out, defines one of the names."""
    mro = type.__dict__["__mro__"].__get__(kind)
    own = (each for each in mro if type.__dict__["__flags__"].__get__(each) & _HEAP)
    return any(not names.isdisjoint(type.__dict__["__dict__"].__get__(each)) for each in own)
