"""Reads an error by Python's own slots, since the code of its class may lie, raise, or never end."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from itertools import islice
from types import TracebackType
from typing import Any, TypeGuard, TypeVar

from billiard.common import terminate_handler_fired  # type: ignore[attr-defined]  # newer than its stubs
from billiard.process import current_process
from celery.exceptions import WorkerShutdown, WorkerTerminate

from .stopping import is_stopping, may_be_interrupted

#: Stands for a class or a message that cannot be read.
UNREADABLE = "(unreadable)"

E = TypeVar("E", bound=BaseException)

_slots: dict[str, Any] = dict(vars(BaseException))
_type_slots: dict[str, Any] = dict(vars(type))
_members: Any = vars(BaseExceptionGroup)["exceptions"]


def is_a(error: object, *kinds: type[E]) -> TypeGuard[E]:
    """Whether an ``except`` clause with these classes would catch the error.

    Such a clause looks at the bases alone: ``isinstance`` also asks the error's ``__class__`` and the
    classes' ``__instancecheck__``, which are code of the project.
    """
    return any(type.__subclasscheck__(kind, type(error)) for kind in kinds)


def is_shutdown(error: BaseException) -> bool:
    """Whether an error means that this process is told to end (or a greenlet killed), not that a body failed.

    A pool child takes a signal to end for a stop of its worker; where the worker does not stop, the parent
    knows better and counts a crash.
    """
    if is_a(error, Exception):
        return False
    if is_a(error, WorkerShutdown, WorkerTerminate):
        return _is_main() and is_stopping()
    if is_a(error, KeyboardInterrupt):
        return _is_main() and may_be_interrupted()  # a pool child is deaf to Ctrl-C: its body raised it
    return name_of(error) == "GreenletExit" or bool(terminate_handler_fired())


def _is_main() -> bool:
    return bool(current_process().name == "MainProcess")


def anew(error: E) -> E:
    """A copy of a kept error, to be raised: the kept one would gather the frames of every raise."""
    return copy(error)


def guarded(read: Callable[[], str], otherwise: str = UNREADABLE) -> str:
    """The text that code of the project gives, or ``otherwise``; raises only a stop of the worker.

    How long that code may take is up to the task's time limit, as for the body.
    """
    try:
        return str.__str__(read())  # no method of a subclass of str is called
    except BaseException as error:
        if is_shutdown(error):
            raise
        return otherwise


def name_of(error: BaseException) -> str:
    """The name of the error's class, without its module."""
    return name_of_class(type(error))


def class_of(error: BaseException) -> str:
    """The name of the error's class, with its module where that is a text."""
    name = guarded(lambda: _type_slots["__qualname__"].__get__(type(error)))
    module = module_of_class(type(error))
    return f"{module}.{name}" if module else name


def module_of_class(kind: type) -> str:
    """The module that a class names; empty where that is no text."""
    return guarded(lambda: _type_slots["__module__"].__get__(kind), "")


def mro_of(error: BaseException) -> tuple[type, ...]:
    """The error's class and its bases."""
    mro: tuple[type, ...] = _type_slots["__mro__"].__get__(type(error))
    return mro


def name_of_class(kind: type) -> str:
    """The name of a class, without its module."""
    return guarded(lambda: _type_slots["__name__"].__get__(kind))


def cause_of(error: BaseException) -> BaseException | None:
    """``__cause__``, as ``raise ... from`` set it."""
    cause: BaseException | None = _slots["__cause__"].__get__(error)
    return cause


def context_of(error: BaseException) -> BaseException | None:
    """``__context__``, as Python set it; also where ``raise ... from`` hides it."""
    context: BaseException | None = _slots["__context__"].__get__(error)
    return context


def hides_context(error: BaseException) -> bool:
    """Whether ``raise ... from`` was used."""
    return bool(_slots["__suppress_context__"].__get__(error))


def trace_of(error: BaseException) -> TracebackType | None:
    """``__traceback__``, as Python set it."""
    trace: TracebackType | None = _slots["__traceback__"].__get__(error)
    return trace


def module_of_code(trace: TracebackType) -> str:
    """The module of a frame's code; empty where its globals name none."""
    return guarded(lambda: trace.tb_frame.f_globals.get("__name__", ""), "")


def args_of(error: BaseException) -> tuple[Any, ...]:
    """``args``, as ``BaseException`` keeps them."""
    args: tuple[Any, ...] = _slots["args"].__get__(error)
    return args


def members_of(error: BaseException, *, most: int) -> tuple[BaseException, ...]:
    """The first errors of a group; none of another error."""
    return _members.__get__(error)[:most] if is_a(error, BaseExceptionGroup) else ()


def notes_of(error: BaseException, *, most: int, length: int) -> list[str]:
    """The first notes, each cut to ``length`` characters."""
    notes: list[Any] = []

    def read() -> str:
        kept = BaseException.__getattribute__(error, "__notes__")
        notes.extend(islice(kept, most))
        return ""

    guarded(read)
    return [guarded(lambda note=note: str(note))[:length] for note in notes]  # type: ignore[misc]


def message_of(error: BaseException) -> str:
    """``str()`` of the error, or its class where that raises."""
    return guarded(lambda: str(error), f"<{name_of(error)} that cannot be printed>")


def shown(value: object) -> str:
    """``repr()`` of a value of the project, or ``(unreadable)`` where that raises."""
    return guarded(lambda: repr(value))
