"""Probes the way to the broker: whether it answers, and the oldest message that should have been sent."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from celery import Celery

from ...ledger.moments import database_now, exact
from ...ledger.stores import LedgerStore
from ...messages.relay import bounded_connection, collapse
from ...models import IdempotencyKey
from ...states import State
from ..doctor.bounded import ask_all, secrets_of
from ..sentences import eta_of, waits_for_its_eta
from ..text import span
from .probe import Health

#: Rows of a state whose messages are looked at.
SAMPLE = 100
#: Seconds within which the broker must answer.
WITHIN = 5.0


def relay_health(store: LedgerStore, app: Celery, *, late: timedelta) -> Health:
    """Whether the broker answers, and no message is due for longer than ``late``.

    Raises what the database raises.
    """
    age, task = oldest_unsent(store)
    got = ask_all({"broker": _connect(app)}, within=WITHIN, secrets=secrets_of(app.conf))
    problems = [f"The broker does not answer: {got.silent['broker']}"] if got.silent else []
    if age is not None and age > late.total_seconds():
        problems.append(
            f"A message of {task} has been due for {span(age)} and is not sent: does a sweeper lead, and does"
            " the broker take messages?"
        )
    facts = {"broker_answers": not got.silent, "oldest_unsent_seconds": age, "oldest_unsent_task": task}
    waits = "nothing is unsent" if age is None else f"the oldest unsent message has been due for {span(age)}"
    return Health(problems[0] if problems else f"The broker answers, and {waits}.", problems, facts)


def _connect(app: Celery) -> Callable[[], None]:
    def connect() -> None:
        connection = bounded_connection(app)
        try:
            connection.ensure_connection(max_retries=1, interval_start=0, timeout=1)
        finally:
            collapse(connection)

    return connect


def oldest_unsent(store: LedgerStore) -> tuple[float | None, str | None]:
    """For how many seconds the oldest unsent message is due, and its task."""
    now = database_now(store)
    found: list[tuple[datetime, str]] = []
    for state in (State.PENDING, State.RETRY):
        keys = IdempotencyKey.objects.using(store.connection.alias).filter(state=state, due_at__lte=now)
        due = (row for row in keys.order_by("due_at")[:SAMPLE] if not waits_for_its_eta(row, now))
        found += [(_due_since(row), row.task) for row in due]
    if not found:
        return None, None
    since, task = min(found)
    return round((exact(now) - since).total_seconds(), 1), task


def _due_since(row: IdempotencyKey) -> datetime:
    """When the message of a row that is due should have been sent.

    A try that failed moves the due time of its row: a call that no broker has taken yet counts from when it
    was made, or from its ETA.
    """
    assert row.due_at is not None  # noqa: S101  the query asks for it
    if row.state != State.PENDING or row.sends >= 0 or row.started_at is not None:
        return exact(row.due_at)
    eta = eta_of(row)
    return exact(row.created_at) if eta is None else max(exact(row.created_at), eta)
