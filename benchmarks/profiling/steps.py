"""The steps of a guarded task, by the functions that do them; they are replaced while a profile is taken."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from inspect import isgeneratorfunction
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.utils import CursorWrapper
from psycopg import Connection

from benchmarks.profiling.stopwatch import Stopwatch
from django_idempotent_tasks.ledger.atomic import AtomicLedger
from django_idempotent_tasks.ledger.ledger import Ledger
from django_idempotent_tasks.running import runner
from django_idempotent_tasks.running.delivery import Delivery
from django_idempotent_tasks.running.heartbeat import Heart
from django_idempotent_tasks.running.settlement import Settlement

CELERY = "Celery's tracer"
BEGIN = "BEGIN"
COMMIT = "COMMIT"
BODY = "body"
STATEMENT = ", statement"

#: Where each is, what it is called there, and its step. A name that begins with a comma is a part of the
#: step around it.
PLACES: tuple[tuple[Any, str, str], ...] = (
    (runner, "run", "guard, the rest"),
    (Delivery, "_call", "identity, from the header"),
    (Delivery, "_stored", "message, as text"),
    (Ledger, "claim", "claim"),
    (Settlement, "_complete", "completion"),
    (AtomicLedger, "complete_inside", "completion"),
    (Ledger, "refuse", "audit row"),
    (Heart, "_take", "heartbeat"),
    (Heart, "_let_go", "heartbeat"),
    (CursorWrapper, "execute", STATEMENT),
    (BaseDatabaseWrapper, "commit", COMMIT),
    # psycopg's own: its first statement in a transaction sends BEGIN, and waits for it.
    (Connection, "_start_query", BEGIN),
)

#: In the order of a task.
LABELS = (
    CELERY,
    "guard, the rest",
    "identity, from the header",
    "message, as text",
    "heartbeat",
    BEGIN,
    "claim",
    "claim, statement",
    BODY,
    "body, statement",
    "completion",
    "completion, statement",
    COMMIT,
    "audit row",
    "audit row, statement",
)


def waits_for_the_server(label: str) -> bool:
    """Whether a step is mostly the driver and the server; the others are Python alone."""
    return label in {BEGIN, COMMIT} or label.endswith(STATEMENT)


@contextmanager
def timing(stopwatch: Stopwatch, tasks: list[Any]) -> Iterator[None]:
    """Time every step inside, and the bodies of these tasks."""
    with timed(stopwatch, [*PLACES, *((task, "run", BODY) for task in tasks)]):
        yield


@contextmanager
def timed(stopwatch: Stopwatch, places: Iterable[tuple[Any, str, str]]) -> Iterator[None]:
    """Time these steps: where each is, what it is called there, and its label."""
    with ExitStack() as undo:
        for place, name, label in places:
            undo.enter_context(_replaced(stopwatch, place, name, label))
        yield


@contextmanager
def _replaced(stopwatch: Stopwatch, place: Any, name: str, label: str) -> Iterator[None]:
    original, own = getattr(place, name), vars(place).get(name)
    timed = stopwatch.timed_generator if isgeneratorfunction(original) else stopwatch.timed
    setattr(place, name, timed(original, label))
    try:
        yield
    finally:
        if own is None:
            delattr(place, name)
        else:
            setattr(place, name, own)
