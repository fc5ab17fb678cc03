"""Errors of attempts as the framework shows them: what the task raised, also where ours took its place."""

from __future__ import annotations

from ..errors.raised import class_of
from ..exceptions import TaskExit, TaskMemoryError
from ..ledger.failures import traceback_of
from .framework import TaskError

#: Our own errors, which end an attempt where the raised one would end the worker.
_INSTEAD = {TaskExit: "builtins.SystemExit", TaskMemoryError: "builtins.MemoryError"}
_RAISED = {f"{kind.__module__}.{kind.__qualname__}": name for kind, name in _INSTEAD.items()}

#: Python's words between the raised error and ours.
_BECAUSE = "\nThe above exception was the direct cause of the following exception:\n"

#: A call that was cancelled, which no attempt has raised.
CANCELLED = TaskError(exception_class_path="celery.exceptions.TaskRevokedError", traceback="")


def recorded(error: str, traceback: str) -> TaskError:
    """A failed attempt by the name of its error and its traceback, as the ledger has them."""
    if error in _RAISED:
        error, traceback = _RAISED[error], traceback.rpartition(_BECAUSE)[0]
    # Python's own errors as Python writes them, without their module.
    return TaskError(exception_class_path=error, traceback=traceback.replace("\nbuiltins.", "\n"))


def raised(error: BaseException) -> TaskError:
    """A failed attempt by what it raised."""
    return recorded(class_of(error), traceback_of(error))
