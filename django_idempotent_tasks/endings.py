"""What an error that ended a body is: a stop of the worker, a signal in disguise, or the body's own."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType

from billiard.common import terminate_handler_fired  # type: ignore[attr-defined]  # newer than its stubs
from billiard.process import current_process
from celery.exceptions import Retry, SoftTimeLimitExceeded, WorkerShutdown, WorkerTerminate
from celery.utils.serialization import UnpickleableExceptionWrapper
from django.db import Error as DatabaseError

from .exceptions import TaskExit, TaskMemoryError
from .stopping import is_stopping, may_be_interrupted

_VALIDATORS = frozenset({"pydantic", "pydantic_core"})
_MACHINERY = frozenset({"django_idempotent_tasks", "celery", "contextlib"}) | _VALIDATORS
_SIGNALS = (SoftTimeLimitExceeded, SystemExit, KeyboardInterrupt)


def struck_by(error: BaseException) -> BaseException:
    """The signal behind an error of the database, or the error itself.

    A signal that strikes as ``atomic()`` ends leaves its transaction open, and Django's next call
    raises the driver's refusal to change anything in it, with the signal as its context.
    """
    behind: BaseException | None = error
    while isinstance(behind, DatabaseError) or (behind is not None and _is_drivers(behind)):
        behind = behind.__context__
    return behind if isinstance(behind, _SIGNALS) else error


def _is_drivers(error: BaseException) -> bool:
    """Whether an error is of the driver; Django sets its own on top of it."""
    return any(
        kind.__name__ == "Error" and kind.__module__.startswith(("psycopg", "sqlite3"))
        for kind in type(error).__mro__
    )


def is_shutdown(error: BaseException) -> bool:
    """Whether this process is told to end (or a greenlet killed), as against what a body raises by itself.

    A pool child that is told to end takes that for a stop of its worker; where it is none, the parent
    knows better and counts a crash.
    """
    if isinstance(error, Exception):
        return False
    if isinstance(error, WorkerShutdown | WorkerTerminate):
        return _is_main() and is_stopping()
    if isinstance(error, KeyboardInterrupt):
        return _is_main() and may_be_interrupted()  # a pool child is deaf to Ctrl-C: its body raised it
    return type(error).__name__ == "GreenletExit" or bool(terminate_handler_fired())


def _is_main() -> bool:
    return bool(current_process().name == "MainProcess")


def cause_of(retry: Retry) -> BaseException | None:
    """What a retry is for, as it was raised: Celery wraps what cannot be pickled, class and all."""
    cause: BaseException | None = retry.exc
    if isinstance(cause, UnpickleableExceptionWrapper) and isinstance(retry.__context__, Exception):
        return retry.__context__
    return cause


def ordinary(error: BaseException) -> BaseException:
    """An error Celery treats as one: MemoryError would end its worker, an exit be requeued for ever."""
    if isinstance(error, MemoryError):
        return _caused(TaskMemoryError("The task ran out of memory."), error)
    if isinstance(error, SystemExit):
        return _caused(TaskExit(f"The task called sys.exit({error.code!r})."), error)
    if not isinstance(error, Exception):  # CancelledError and the like: no shutdown, or it loops for ever
        return _caused(TaskExit(f"The task raised {type(error).__name__}."), error)
    return error


def is_misfit(error: BaseException) -> bool:
    """Whether the arguments did not fit the body: raised at the call itself, before its first line.

    By the interpreter, or by the models of ``pydantic=True``. What is retried comes back the same.
    """
    if not isinstance(error, TypeError) and type(error).__module__.partition(".")[0] not in _VALIDATORS:
        return False
    return error.__traceback__ is not None and all(_is_machinery(trace) for trace in _links(error))


def _links(error: BaseException) -> Iterator[TracebackType]:
    trace = error.__traceback__
    while trace is not None:
        yield trace
        trace = trace.tb_next


def _is_machinery(trace: TracebackType) -> bool:
    name = str(trace.tb_frame.f_globals.get("__name__", ""))
    return name.partition(".")[0] in _MACHINERY


def _caused(error: Exception, cause: BaseException) -> Exception:
    error.__cause__ = cause
    return error
