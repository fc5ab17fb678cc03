"""Bounds the values of labels: what is not known by name becomes ``_other``."""

from __future__ import annotations

from typing import Any

from celery import Celery, current_app, current_task

from ..ledger.rules import COMPLETED, FAILED, IN_PROGRESS, IN_REVIEW, MISMATCH, SHADOWED
from ..models import BEAT, SWEEPER
from ..states import Category

OTHER = "_other"
NONE = "none"
REASONS = frozenset({IN_PROGRESS, COMPLETED, FAILED, IN_REVIEW, MISMATCH, *SHADOWED})
#: Names of tasks that were looked up: as many as are registered at most.
_known: set[str] = set()
DUTIES = frozenset({SWEEPER, BEAT})


def task_label(name: str) -> str:
    """The name of a task that this process knows; a message may name any, and those are counted as one."""
    if name in _known:
        return name
    if name not in _app().tasks:
        return OTHER
    _known.add(name)
    return name


def queue_label() -> str:
    """The queue of the message that runs here, if the app declares it."""
    request: Any = getattr(current_task, "request", None)
    name = (getattr(request, "delivery_info", None) or {}).get("routing_key")
    return str(name) if name in _app().amqp.queues else OTHER


def _app() -> Celery:
    """The app of the task that runs here, or of the process."""
    found: Celery = getattr(current_task, "app", None) or current_app
    return found


def reason_label(reason: str) -> str:
    """Why a duplicate was refused."""
    return reason if reason in REASONS else OTHER


def duty_label(name: str) -> str:
    """A duty that one process leads."""
    return name if name in DUTIES else OTHER


def category_label(category: Category | int | None) -> str:
    """A category of a failure, in lower case; ``none`` where no error is behind it."""
    return NONE if category is None else Category(category).name.lower()
