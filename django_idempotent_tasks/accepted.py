"""The result of a reserved call: it asks the ledger what the result backend does not know (any more)."""

from __future__ import annotations

from typing import Any

from celery import states
from celery.backends.base import DisabledBackend
from celery.exceptions import TaskRevokedError
from celery.result import AsyncResult
from django.db import connections

from .conf import settings
from .exceptions import OuterTransaction, RecordedError, ResultNotStored
from .models import AnsweredCall, IdempotencyKey
from .results import decode_error, decode_result
from .states import Reason, State
from .stores import get_store

_CELERYS = {
    State.PENDING: states.PENDING,
    State.RUNNING: states.STARTED,
    State.RETRY: states.RETRY,
    State.SUCCEEDED: states.SUCCESS,
    State.FAILED: states.FAILURE,
    State.REVIEW: states.FAILURE,
    State.CANCELLED: states.REVOKED,
}


class AcceptedResult(AsyncResult):  # type: ignore[type-arg]  # generic in the stubs only
    """Celery's result of the accepted call; ``duplicate`` says that another call asked for the work first."""

    duplicate = False
    _cache: dict[str, Any] | None
    #: Whether this process reserved it, in a transaction that may still be open.
    reserved_here = False

    def get(self, *args: Any, **kwargs: Any) -> Any:
        """The task's result.

        Raises :class:`OuterTransaction` inside the transaction that reserved the call: its message
        goes out when that commits, so that waiting here would never end.
        """
        if self.reserved_here and connections[settings().database].in_atomic_block:
            msg = f"The message of {self.id} goes out when the open transaction commits; wait after that."
            raise OuterTransaction(msg)
        self._get_task_meta()  # keeps the ledger's answer, if the work has ended
        return super().get(*args, **kwargs)

    def revoke(self, *args: Any, **kwargs: Any) -> None:
        """Revoke as Celery does, and cancel in the ledger, which outlives every worker's memory."""
        get_store().cancel_waiting(self.id, window=settings().redelivery_window)
        super().revoke(*args, **kwargs)

    def _get_task_meta(self) -> dict[str, Any]:
        if self._cache is not None:
            return self._cache
        meta: dict[str, Any] = {"task_id": self.id, "status": states.PENDING, "result": None}
        if not isinstance(self.backend, DisabledBackend):
            meta = super()._get_task_meta()  # type: ignore[misc]  # not in the stubs
        return self._from_ledger() or meta if meta["status"] == states.PENDING else meta

    def _from_ledger(self) -> dict[str, Any] | None:
        row = _row(self.id)
        if row is None:
            return None
        state = State(row.state)
        meta = {"task_id": self.id, "status": _CELERYS[state], "result": self._outcome(state, row)}
        if meta["status"] in states.READY_STATES:
            self._cache = meta
        return meta

    def _outcome(self, state: State, row: IdempotencyKey | AnsweredCall) -> Any:
        match state:
            case State.SUCCEEDED if row.reason == Reason.RESULT_NOT_STORED:
                return ResultNotStored(f"{self.id} is completed; its result was not stored.")
            case State.SUCCEEDED:
                return decode_result(row.result)
            case State.FAILED | State.REVIEW:
                return RecordedError(decode_error(row.result))
            case State.CANCELLED:
                return TaskRevokedError("cancelled")
            case _:
                return None


def _row(task_id: str) -> IdempotencyKey | AnsweredCall | None:
    """The row of an accepted call, or how it ended where its key belongs to a later call."""
    alias = settings().database
    key = IdempotencyKey.objects.using(alias).filter(task_id=task_id).first()
    return key or AnsweredCall.objects.using(alias).filter(task_id=task_id).first()
