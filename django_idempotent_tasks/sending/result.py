"""Celery's result of a reserved call, which asks the ledger where the result backend does not know."""

from __future__ import annotations

import time
from functools import lru_cache
from typing import Any
from uuid import UUID

from celery import states
from celery.backends.base import DisabledBackend
from celery.exceptions import SoftTimeLimitExceeded, TaskRevokedError
from celery.exceptions import TimeoutError as CeleryTimeoutError
from celery.result import (  # type: ignore[attr-defined]  # not all in the stubs
    AsyncResult,
    EagerResult,
    assert_will_not_block,
)
from django.db import DatabaseError, connections
from vine import promise

from ..conf import settings
from ..errors.raised import anew
from ..exceptions import IdempotencyError, OuterTransaction, RecordedError, ResultNotStored
from ..ledger import rows
from ..ledger.encoding import decode_error, decode_result
from ..ledger.stores import get_store
from ..models import AnsweredCall, IdempotencyKey
from ..states import Reason, State

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
    #: The class of the task's own results, where that is not Celery's.
    kind: type[Any] = AsyncResult
    #: The key's digest, where it is known: by it a call is found whose key another call took over.
    digest: UUID | None = None
    _cache: dict[str, Any] | None
    #: Whether the result backend answered when it was last asked.
    _answers = True

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
        deadline = None if timeout is None else time.monotonic() + timeout
        meta = self._known(deadline, interval, may_block=not kwargs.get("disable_sync_subtasks", True))
        if propagate and isinstance(meta["result"], ResultNotStored) and not self.ignored:
            raise meta["result"]
        try:
            return super().get(timeout, propagate, interval, **kwargs)
        except (CeleryTimeoutError, SoftTimeLimitExceeded):
            raise
        except Exception:
            if self._cache is not None:
                raise  # the task's own error
        # The result backend went away meanwhile.
        self._wait_for_the_ledger(deadline, interval)
        return super().get(timeout, propagate, interval, **kwargs)

    wait = get  # type: ignore[assignment]  # Celery's other name for it

    def revoke(self, *args: Any, **kwargs: Any) -> None:
        """Revoke as Celery does, and cancel in the ledger, which remembers longer than any worker."""
        get_store().cancel_waiting([self.id], window=settings().redelivery_window)
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
    def _has_backend(self) -> bool:
        """Whether the result backend is worth asking: it has no eager calls, and warns when asked for one."""
        conf = self.app.conf
        is_kept = conf.task_store_eager_result or not conf.task_always_eager
        return is_kept and not isinstance(self.backend, DisabledBackend)

    def _known(self, deadline: float | None, interval: float, *, may_block: bool) -> dict[str, Any]:
        """The backend's answer or, once the work has ended, the ledger's, which is kept."""
        meta = self._get_task_meta()
        if not (self._has_backend and self._answers) and not self.ignored:
            if not may_block:
                assert_will_not_block()
            meta = self._wait_for_the_ledger(deadline, interval)
        if self._cache is not None and isinstance(self._cache["result"], IdempotencyError):
            self._cache = meta = {**self._cache, "result": anew(self._cache["result"])}
        return meta

    def _wait_for_the_ledger(self, deadline: float | None, interval: float) -> dict[str, Any]:
        """Ask the ledger again and again: without a backend nothing announces the end of the work."""
        while (meta := self._get_task_meta())["status"] not in states.READY_STATES:
            if deadline is not None and time.monotonic() >= deadline:
                raise CeleryTimeoutError("The operation timed out.")
            time.sleep(interval)
        return meta

    def _get_task_meta(self) -> dict[str, Any]:
        if self._cache is not None:
            return self._cache
        meta: dict[str, Any] = {"task_id": self.id, "status": states.PENDING, "result": None}
        if self._has_backend:
            try:
                meta = super()._get_task_meta()  # type: ignore[misc]  # not in the stubs
                self._answers = True
            except SoftTimeLimitExceeded:
                raise
            except Exception as error:  # noqa: BLE001  every backend has errors of its own
                return self._without_the_backend(error)
        if meta["status"] == states.REVOKED and meta["result"] is None:  # Celery cannot raise None
            self._cache = meta = {**meta, "result": TaskRevokedError("cancelled")}
        if meta["status"] in states.READY_STATES:
            return meta
        known = self._from_ledger()
        if known is None or (meta["status"] != states.PENDING and known["status"] not in states.READY_STATES):
            return meta
        return known

    def _without_the_backend(self, error: Exception) -> dict[str, Any]:
        """The ledger's answer; raises the backend's error where the ledger does not know the call either."""
        self._answers = False
        try:
            known = self._from_ledger()
        except DatabaseError:
            raise error from None
        if known is None:
            raise error
        return known

    def _on_fulfilled(self, result: Any) -> Any:
        """Let the backend drop its subscription; a backend that is away has dropped it."""
        if not self._answers:
            return result
        return super()._on_fulfilled(result)  # type: ignore[misc]  # not in the stubs

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self.kind, self.__reduce_args__(), self.digest)

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


def accepted_result(task: Any, task_id: str) -> AcceptedResult:
    """The result of a task's accepted call, with what the task's own ``AsyncResult`` adds to it."""
    own = task.AsyncResult(task_id)
    kind = _kind_of(type(own), task.app)
    if kind is AsyncResult:
        return AcceptedResult(task_id, backend=task.backend, app=task.app)
    own.__class__ = _with(kind)
    own.app = task.app
    own.on_ready = promise(own._on_fulfilled, weak=True)  # noqa: SLF001  as its constructor did, for its new class
    result: AcceptedResult = own
    return result


def _kind_of(kind: type, app: Any) -> type:
    """The class of a task's results; not the one that Celery makes of it for each app."""
    kind = kind.__mro__[1] if kind is app.AsyncResult else kind
    return kind if issubclass(kind, AsyncResult) else AsyncResult


@lru_cache(maxsize=100)
def _with(kind: type) -> type:
    return type(f"Accepted{kind.__name__}", (AcceptedResult, kind), {"__module__": __name__, "kind": kind})


def _restored(kind: type, args: tuple[Any, ...], digest: UUID | None) -> Any:
    """Unpickle a result."""
    result = (AcceptedResult if kind is AsyncResult else _with(kind))(*args)
    result.digest = digest
    return result


def _row(task_id: str, digest: UUID | None) -> IdempotencyKey | AnsweredCall | None:
    """The row of an accepted call, or the record of its end where its key belongs to a later call."""
    row = rows.of_call(task_id)
    if row is None and digest is not None:
        row = rows.taken_over(task_id, digest=digest)
    return row or rows.ended(task_id)


def _value(task_id: str, text: str | None) -> Any:
    """The stored result, or the ResultNotStored that ``get`` raises where it cannot be read."""
    try:
        return decode_result(text)
    except ResultNotStored as error:
        return ResultNotStored(f"{task_id} is completed. {error}")


def _is_held(task_id: str) -> bool:
    """Whether this call's message waits for this thread's open transaction to commit."""
    hooks = connections[settings().database].run_on_commit
    return any(getattr(getattr(hook[1], "__self__", None), "held_call", None) == task_id for hook in hooks)
