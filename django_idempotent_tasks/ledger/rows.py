"""Finds a key's row: by the key, or by the task id of a call that reserved it or took it over."""

from __future__ import annotations

from uuid import UUID

from django.db.models import Case, QuerySet, When

from ..conf import settings
from ..identity.names import all_names
from ..models import AnsweredCall, FollowUp, IdempotencyKey, Step
from ..states import Reason, State

#: Steps of a key that a page or a document shows.
STEPS_SHOWN = 200


def of_key(digest: UUID) -> IdempotencyKey | None:
    """The row of a key; None where it has none."""
    return _keys().filter(digest=digest).first()


def of_call(task_id: str, *, task: str | None = None, digest: UUID | None = None) -> IdempotencyKey | None:
    """The row that has the work of an accepted call now; None without one.

    A replacement by ``self.replace()`` has the task id of the task that it replaces: its row comes before
    the replaced row, also if it is not of ``task``. With a ``digest`` only that key is looked up.
    """
    named = _keys().filter(task_id=task_id)
    row = _present(_narrowed(named, task, digest))
    if row is not None and row.reason == Reason.REPLACED and digest is None:
        return _present(named)
    return row


def taken_over(task_id: str, *, task: str | None = None, digest: UUID | None = None) -> IdempotencyKey | None:
    """The row of another call's key that this call runs, or with a ``digest`` has run; None without one.

    No index has the task ids of calls that took over, but few keys run at one time.
    """
    rows = _narrowed(_keys().filter(runner_task_id=task_id), task, digest)
    return (rows.filter(state=State.RUNNING) if digest is None else rows).first()


def ended(task_id: str, *, digest: UUID | None = None) -> AnsweredCall | None:
    """How a call ended whose key a later call has claimed; None where no answer is stored."""
    calls = AnsweredCall.objects.using(settings().database).filter(task_id=task_id)
    if digest is not None:
        calls = calls.filter(digest=digest)
    return calls.order_by("-id").first()


def follow_up_of(row: IdempotencyKey) -> FollowUp | None:
    """The call that is run once the key's present one has ended; its message is not read."""
    alias = row._state.db or settings().database  # noqa: SLF001  where the row was read
    return FollowUp.objects.using(alias).filter(digest=row.digest).defer("message").first()


def of_follow_up(
    task_id: str, *, task: str | None = None, digest: UUID | None = None
) -> IdempotencyKey | None:
    """A call that waits as a follow-up, as the row that it will have; None where none has this task id."""
    given = {"task_id": task_id, "task": task, "digest": digest}
    named = {name: value for name, value in given.items() if value is not None}
    found = FollowUp.objects.using(settings().database).filter(**named).defer("message").first()
    return None if found is None else _to_be(found)


def _to_be(waiting: FollowUp) -> IdempotencyKey:
    names = ("digest", "task", "scope", "key_text", "task_id", "fingerprint", "created_at", "due_at")
    columns = {name: getattr(waiting, name) for name in names}
    counts = dict.fromkeys(("token", "generation", "attempts", "crashes", "duplicates", "lease_seconds"), 0)
    return IdempotencyKey(
        **columns, **counts, state=State.PENDING, reason=Reason.NONE, sends=-1, in_external=False
    )


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
    given = {"task__in": None if task is None else all_names(task), "digest": digest}
    named = {name: value for name, value in given.items() if value is not None}
    return rows.filter(**named)


def _present(rows: QuerySet[IdempotencyKey]) -> IdempotencyKey | None:
    """The row that was not replaced, else one that was; None without any. One statement."""
    return rows.order_by(Case(When(reason=Reason.REPLACED, then=1), default=0)).first()
