"""System checks of options that do nothing where they are set: W006, W009, W011."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from django.core import checks

from .guard import forgotten_options, left_over, unused_lease

ID = "django_idempotent_tasks"


def of_options(tasks: Iterable[Any], app: Any) -> Iterator[checks.CheckMessage]:
    """What is to be said of options without effect."""
    for task in tasks:
        if not hasattr(task, "idempotency_guarded"):
            yield from _forgotten(task, app)
        elif hasattr(task, "idempotency_policy"):
            yield from _left_over(task)
            yield from _leaseless(task, app)


def _forgotten(task: Any, app: Any) -> Iterator[checks.CheckMessage]:
    """W006: a plain task has options of this package, which Celery takes for plain attributes."""
    if names := forgotten_options(type(task), app):
        yield checks.Warning(
            f"Task {task.name} sets {', '.join(map(repr, names))} and is no IdempotentTask, so not guarded.",
            hint="Give it base=IdempotentTask; if the option is not meant for it, silence the check.",
            id=f"{ID}.W006",
        )


def _left_over(task: Any) -> Iterator[checks.CheckMessage]:
    """W009: a guarded task has options of a package that it no longer uses."""
    if names := left_over(type(task)):
        yield checks.Warning(
            f"Task {task.name} sets {', '.join(map(repr, names))} of celery-once or celery-singleton, which"
            " does nothing on an IdempotentTask.",
            hint="Delete it; docs/migrating.md names the options that replace it, such as key= and reserve=.",
            id=f"{ID}.W009",
        )


def _leaseless(task: Any, app: Any) -> Iterator[checks.CheckMessage]:
    """W011: an atomic task sets a lease, and its run has none: it is one transaction."""
    if task.idempotency_policy.mode == "atomic" and unused_lease(type(task), app):
        yield checks.Warning(
            f"Task {task.name} is atomic and sets 'lease', which does not bound its run: that is one"
            " transaction, without a lease.",
            hint="Leave it out; time_limit= ends a body that takes too long. For a lease: mode='leased'.",
            id=f"{ID}.W011",
        )
