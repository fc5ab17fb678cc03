"""Tells what ended a body: a stop of the worker, a signal behind a database error, or its own error."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType

from celery.exceptions import Retry, SoftTimeLimitExceeded
from django.db import Error as DatabaseError

from ..errors.raised import (
    args_of,
    context_of,
    is_a,
    module_of_class,
    module_of_code,
    mro_of,
    name_of,
    name_of_class,
    shown,
    trace_of,
)
from ..exceptions import TaskExit, TaskMemoryError

_VALIDATORS = frozenset({"pydantic", "pydantic_core"})
_MACHINERY = frozenset({"django_idempotent_tasks", "celery", "contextlib"}) | _VALIDATORS

#: What signals raise at whatever line they strike.
SIGNALS = (SoftTimeLimitExceeded, SystemExit, KeyboardInterrupt)

#: How many database errors may lie above a signal's: a chain of contexts may be a ring.
_DEEPEST = 100


def struck_by(error: BaseException) -> BaseException:
    """The signal behind an error of the database, or the error itself.

    A signal that strikes as ``atomic()`` ends leaves its transaction open, and Django's next call
    raises the driver's refusal to change anything in it, with the signal as its context.
    """
    behind: BaseException | None = error
    for _ in range(_DEEPEST):
        if behind is None or not (is_a(behind, DatabaseError) or _is_drivers(behind)):
            break
        behind = context_of(behind)
    return behind if behind is not None and is_a(behind, *SIGNALS) else error


def _is_drivers(error: BaseException) -> bool:
    """Whether an error is the driver's own, which Django's error has as its cause."""
    return any(
        name_of_class(kind) == "Error" and module_of_class(kind).startswith(("psycopg", "sqlite3"))
        for kind in mro_of(error)
    )


def cause_of(retry: Retry) -> BaseException | None:
    """The error that a retry is for, as it was raised.

    Celery replaces an error that cannot be pickled by an instance of a base class, or a wrapper. The error
    itself stays in the arguments of the retry.
    """
    given = args_of(retry)[1:2]
    if given and is_a(given[0], BaseException):
        return given[0]
    cause: BaseException | None = retry.exc
    return cause


def ordinary(error: BaseException) -> BaseException:
    """An error that fails the task: a MemoryError would end the worker, an exit be requeued for ever."""
    if is_a(error, MemoryError):
        return _caused(TaskMemoryError("The task ran out of memory."), error)
    if is_a(error, SystemExit):
        code = args_of(error)[0] if len(args_of(error)) == 1 else args_of(error) or None
        return _caused(TaskExit(f"The task called sys.exit({shown(code)[:200]})."), error)
    if not is_a(error, Exception):  # CancelledError and the like: no shutdown, or it loops for ever
        return _caused(TaskExit(f"The task raised {name_of(error)}."), error)
    return error


def is_misfit(error: BaseException) -> bool:
    """Whether the arguments do not fit the body: the error was raised at the call, before its first line.

    By the interpreter, or by the models of ``pydantic=True``. A retry would raise the same.
    """
    if not is_a(error, TypeError) and module_of_class(type(error)).partition(".")[0] not in _VALIDATORS:
        return False
    return trace_of(error) is not None and all(_is_machinery(trace) for trace in _links(error))


def _links(error: BaseException) -> Iterator[TracebackType]:
    trace = trace_of(error)
    while trace is not None:
        yield trace
        trace = trace.tb_next


def _is_machinery(trace: TracebackType) -> bool:
    return module_of_code(trace).partition(".")[0] in _MACHINERY


def _caused(error: Exception, cause: BaseException) -> Exception:
    error.__cause__ = cause
    return error
