"""What a task's body takes and returns, for type checkers; both are anything where nobody says so."""

from __future__ import annotations

from types import GenericAlias
from typing import TYPE_CHECKING, Any

from celery import Task

if TYPE_CHECKING:
    # Type checkers know this module without an installation; before Python 3.13 typing has no defaults.
    from typing_extensions import ParamSpec, TypeVar

    P = ParamSpec("P", default=...)
    R_co = TypeVar("R_co", covariant=True, default=Any)
else:
    from typing import ParamSpec, TypeVar

    P = ParamSpec("P")
    R_co = TypeVar("R_co", covariant=True)

    if not hasattr(Task, "__class_getitem__"):  # Celery 5.6; from 5.7 on it has this very line
        Task.__class_getitem__ = classmethod(GenericAlias)
