"""The result of a reserved call: it asks the ledger what the result backend does not know (any more)."""

from __future__ import annotations

import time
from typing import Any
from uuid import UUID

from celery import states
from celery.backends.base import DisabledBackend
from celery.exceptions import TaskRevokedError
from celery.exceptions import TimeoutError as CeleryTimeoutError
from celery.result import (  # type: ignore[attr-defined]  # not all in the stubs
    AsyncResult,
    EagerResult,
    assert_will_not_block,
)
from django.db import connections

from .conf import settings
from .encoding import decode_error, decode_result
from .exceptions import OuterTransaction, RecordedError, ResultNotStored
from .models import AnsweredCall, IdempotencyKey
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
    #: The key's digest, where it is known: it finds the row of a call that took over another's.
    digest: UUID | None = None
    _cache: dict[str, Any] | None

    def get(  # type: ignore[override]  # the rest by keyword only
        self,
        timeout: float | None = None,
        propagate: bool = True,  # noqa: FBT001, FBT002  Celery's own
        interval: float = 0.5,
        **kwargs: Any,
    ) -> Any:
        """The task's result.

        Raises :class:`OuterTransaction` inside the transaction that reserved the call: its message
        goes out when that commits, so that waiting here would never end. Raises
        :class:`ResultNotStored` where only the ledger knows the call and has no result of it.
        """
        if _is_held(self.id):
            msg = f"The message of {self.id} goes out when the open transaction commits; wait after that."
            raise OuterTransaction(msg)
        meta = self._get_task_meta()  # keeps the ledger's answer, if the work has ended
        if not self._is_told and not self.ignored:
            if kwargs.get("disable_sync_subtasks", True):
                assert_will_not_block()
            meta = self._wait_for_the_ledger(timeout, interval)
        if propagate and isinstance(meta["result"], ResultNotStored) and not self.ignored:
            raise meta["result"]
        return super().get(timeout, propagate, interval, **kwargs)

    wait = get  # type: ignore[assignment]  # Celery's other name for it

    def revoke(self, *args: Any, **kwargs: Any) -> None:
        """Revoke as Celery does, and cancel in the ledger, which outlives every worker's memory."""
        get_store().cancel_waiting(self.id, window=settings().redelivery_window)
        super().revoke(*args, **kwargs)

    def keep(self, eager: EagerResult[Any]) -> None:
        """Take over the outcome of a call that was run where it was made."""
        self.ignored = False
        self._cache = {
            "task_id": self.id,
            "status": eager.state,
            "result": eager.result,
            "traceback": eager.traceback,
        }

    @property
    def _is_told(self) -> bool:
        """Whether the result backend knows of the call; of eager ones it does not, and warns who asks."""
        conf = self.app.conf
        is_kept = conf.task_store_eager_result or not conf.task_always_eager
        return is_kept and not isinstance(self.backend, DisabledBackend)

    def _wait_for_the_ledger(self, timeout: float | None, interval: float) -> dict[str, Any]:
        """Without a backend nobody is told when the work ends: look again and again."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while (meta := self._get_task_meta())["status"] not in states.READY_STATES:
            if deadline is not None and time.monotonic() >= deadline:
                raise CeleryTimeoutError("The operation timed out.")
            time.sleep(interval)
        return meta

    def _get_task_meta(self) -> dict[str, Any]:
        if self._cache is not None:
            return self._cache
        meta: dict[str, Any] = {"task_id": self.id, "status": states.PENDING, "result": None}
        if self._is_told:
            meta = super()._get_task_meta()  # type: ignore[misc]  # not in the stubs
        if meta["status"] == states.REVOKED and meta["result"] is None:  # Celery could not raise that
            self._cache = meta = {**meta, "result": TaskRevokedError("cancelled")}
        if meta["status"] in states.READY_STATES:
            return meta
        known = self._from_ledger()
        if known is None or (meta["status"] != states.PENDING and known["status"] not in states.READY_STATES):
            return meta
        return known

    def _from_ledger(self) -> dict[str, Any] | None:
        row = _row(self.id, self.digest)
        if row is None:
            return None
        state = State.RUNNING if row.reason == Reason.REPLACED else State(row.state)
        meta = {"task_id": self.id, "status": _CELERYS[state], "result": self._outcome(state, row)}
        if meta["status"] in states.READY_STATES:
            self._cache = meta
            self.on_ready(self)
        return meta

    def _outcome(self, state: State, row: IdempotencyKey | AnsweredCall) -> Any:
        match state:
            case State.SUCCEEDED if row.reason == Reason.RESULT_NOT_STORED:
                return ResultNotStored(f"{self.id} is completed; its result was not stored.")
            case State.SUCCEEDED:
                return _value(self.id, row.result)
            case State.FAILED | State.REVIEW:
                return RecordedError(decode_error(row.result))
            case State.CANCELLED:
                return TaskRevokedError("cancelled")
            case _:
                return None


def _row(task_id: str, digest: UUID | None) -> IdempotencyKey | AnsweredCall | None:
    """The row of an accepted call, or how it ended where its key belongs to a later call."""
    alias = settings().database
    keys = IdempotencyKey.objects.using(alias)
    # What takes a task's place has its task id as well.
    named = keys.filter(task_id=task_id)
    key = named.exclude(reason=Reason.REPLACED).first() or named.first()
    if key is None and digest is not None:  # no index names those who took over
        key = keys.filter(digest=digest, runner_task_id=task_id).first()
    return key or AnsweredCall.objects.using(alias).filter(task_id=task_id).first()


def _value(task_id: str, text: str | None) -> Any:
    """The stored result; what ``get`` raises where it cannot be read, as where it was not stored."""
    try:
        return decode_result(text)
    except ResultNotStored as error:
        return ResultNotStored(f"{task_id} is completed. {error}")


def _is_held(task_id: str) -> bool:
    """Whether the message of this call waits for the open transaction of this thread to commit."""
    hooks = connections[settings().database].run_on_commit
    return any(getattr(getattr(hook[1], "__self__", None), "held_call", None) == task_id for hook in hooks)
