"""Reserved calls as a project's tests see them: which wait, which may run now, and with what arguments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from ..conf import settings
from ..identity.key import Identity
from ..ledger.moments import database_now, exact
from ..ledger.stores import get_store
from ..ledger.values import Call
from ..messages.address import moment
from ..messages.message import Message
from ..messages.places import json_text
from ..models import IdempotencyKey
from ..operations.tasks import known_task
from ..states import LIVE, State


@dataclass(frozen=True, slots=True)
class ReservedCall:
    """One accepted call: the name of its task, its arguments and its task id."""

    task: str
    task_id: str
    args: tuple[Any, ...] = field(compare=False)
    kwargs: Mapping[str, Any] = field(compare=False)
    message: Message = field(compare=False, repr=False)

    @classmethod
    def of(cls, message: Message) -> ReservedCall:
        """The call of a message."""
        task_id = str(message.options["task_id"])
        return cls(message.task, task_id, tuple(message.args), dict(message.kwargs), message)

    @property
    def row(self) -> IdempotencyKey | None:
        """The row of its key; None where a rollback has taken the call back, or a later call has the key."""
        row: IdempotencyKey | None = _rows().filter(task=self.task, task_id=self.task_id).first()
        return row

    @property
    def state(self) -> State | None:
        """Where its key stands."""
        row = self.row
        return None if row is None else State(row.state)

    def arguments(self, task: Any = None) -> dict[str, object]:
        """Every parameter's value by its name, as the body gets it."""
        task = task or known_task(self.task)
        named: dict[str, object] = task.idempotency_policy.key_rules.binder(self.args, self.kwargs)
        return named

    def __str__(self) -> str:
        given = [*map(repr, self.args), *(f"{name}={value!r}" for name, value in self.kwargs.items())]
        return f"{self.task}({', '.join(given)})"


def waiting(known: Iterable[str], *, due: bool = False) -> list[ReservedCall]:
    """The calls that are accepted and unfinished, the oldest first; with ``due`` those that may run now.

    ``known``: task ids in the order of their calls, for those that one transaction has written.
    """
    places = {task_id: place for place, task_id in enumerate(known)}
    rows = list(_rows().filter(state__in=LIVE, message__isnull=False).order_by("task_id"))
    rows.sort(key=lambda row: (row.created_at, places.get(row.task_id, len(places))))
    found = [(row, Message.decode(row.task, row.message or "")) for row in rows]
    if due:
        now = database_now(get_store())
        found = [(row, message) for row, message in found if _may_run(row, message, now)]
    return [ReservedCall.of(message) for _row, message in found]


def ledger_call(row: IdempotencyKey) -> Call:
    """The call of a row, as the ledger is asked for its claim."""
    identity = Identity(row.digest, row.scope, row.key_text, row.fingerprint)
    return Call(identity, row.task, row.task_id, row.message)


def names_of(calls: list[ReservedCall]) -> str:
    """For the message of a failed assertion."""
    return "; ".join(map(str, calls)) or "none"


def matching(calls: list[ReservedCall], task: Any, wanted: Mapping[str, Any]) -> Iterator[ReservedCall]:
    """The calls of a task in which these parameters have these values."""
    for call in calls:
        if call.task == task.name:
            given = call.arguments(task)
            if all(name in given and _is(given[name], value) for name, value in wanted.items()):
                yield call


def _is(given: object, wanted: object) -> bool:
    """Whether a message carries this value, which it may change: a tuple arrives as a list."""
    return given == wanted or json_text(given) == (json_text(wanted) or "")


def _may_run(row: IdempotencyKey, message: Message, now: datetime) -> bool:
    if row.state != State.PENDING:  # a retry's time, or the end of a lease
        return row.open_at is None or row.open_at <= now
    if row.sends < 0:  # it waits in the ledger for its time
        return row.due_at is None or row.due_at <= now
    eta = moment(message.options.get("eta"))
    return eta is None or eta <= exact(now)


def _rows() -> Any:
    return IdempotencyKey.objects.using(settings().database)
