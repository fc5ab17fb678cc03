"""Type variables for what a task's body takes and returns; both default to anything."""

from __future__ import annotations

from types import GenericAlias
from typing import TYPE_CHECKING, Any

from celery import Task

if TYPE_CHECKING:
    # Type checkers know typing_extensions uninstalled; before Python 3.13 typing has no defaults.
    from typing_extensions import ParamSpec, TypeVar

    P = ParamSpec("P", default=...)
    R_co = TypeVar("R_co", covariant=True, default=Any)
else:
    from typing import ParamSpec, TypeVar

    P = ParamSpec("P")
    R_co = TypeVar("R_co", covariant=True)

    if not hasattr(Task, "__class_getitem__"):  # Celery 5.6; from 5.7 on Celery itself has this line
        Task.__class_getitem__ = classmethod(GenericAlias)
