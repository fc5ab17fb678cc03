"""Finds the row of a key: by the key, or by a call's task id, whichever way the call came to the key."""

from __future__ import annotations

from uuid import UUID

from django.db.models import Case, QuerySet, When

from ..conf import settings
from ..models import AnsweredCall, IdempotencyKey, Step
from ..states import Reason, State

#: Steps of a key that a page or a document shows.
STEPS_SHOWN = 200


def of_key(digest: UUID) -> IdempotencyKey | None:
    """The row of a key; None where it has none."""
    return _keys().filter(digest=digest).first()


def of_call(task_id: str, *, task: str | None = None, digest: UUID | None = None) -> IdempotencyKey | None:
    """The row in which the work of an accepted call is now; None without one.

    What takes a task's place has its task id as well: the row of that work comes before the replaced
    one, also where another task than ``task`` has it. With a ``digest`` only that key is looked at.
    """
    named = _keys().filter(task_id=task_id)
    row = _present(_narrowed(named, task, digest))
    if row is not None and row.reason == Reason.REPLACED and digest is None:
        return _present(named)
    return row


def taken_over(task_id: str, *, task: str | None = None, digest: UUID | None = None) -> IdempotencyKey | None:
    """The row of another call's key that this call runs, or with a ``digest`` has run; None without one.

    No index names those who took over, but few keys run at one time.
    """
    rows = _narrowed(_keys().filter(runner_task_id=task_id), task, digest)
    return (rows.filter(state=State.RUNNING) if digest is None else rows).first()


def ended(task_id: str, *, digest: UUID | None = None) -> AnsweredCall | None:
    """How a call ended whose key a later call has; None where nothing is remembered."""
    calls = AnsweredCall.objects.using(settings().database).filter(task_id=task_id)
    if digest is not None:
        calls = calls.filter(digest=digest)
    return calls.order_by("-id").first()


def steps_of(row: IdempotencyKey, *, values: bool = False) -> list[Step]:
    """The finished steps of a key's present work, in their order and at most ``STEPS_SHOWN`` of them."""
    alias = row._state.db or settings().database  # noqa: SLF001  where the row was read
    steps = Step.objects.using(alias).filter(digest=row.digest, generation=row.generation)
    return list((steps if values else steps.defer("value")).order_by("id")[:STEPS_SHOWN])


def _keys() -> QuerySet[IdempotencyKey]:
    return IdempotencyKey.objects.using(settings().database)


def _narrowed(
    rows: QuerySet[IdempotencyKey], task: str | None, digest: UUID | None
) -> QuerySet[IdempotencyKey]:
    given = {"task": task, "digest": digest}
    return rows.filter(**{name: value for name, value in given.items() if value is not None})


def _present(rows: QuerySet[IdempotencyKey]) -> IdempotencyKey | None:
    """The one that no other has taken the place of; one statement, whatever is found."""
    return rows.order_by(Case(When(reason=Reason.REPLACED, then=1), default=0)).first()
