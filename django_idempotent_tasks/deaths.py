"""What is written for a child that died or is being killed: a crash, or the end of a hard time limit."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import Any

from billiard.common import human_status
from billiard.exceptions import WorkerLostError

from . import doubted, signals, undone
from .announce import announce
from .breaker import breaker
from .conf import settings
from .delivery import is_redelivered
from .header import from_header
from .message import HEADER
from .outcomes import Call, Failure
from .states import Reason, State
from .stores import LedgerStore

#: How Celery tells that end: of a child that left by itself then, and of one that the signal struck again.
_TOLD_TO_STOP = (human_status(int(signal.SIGTERM)), human_status(-signal.SIGTERM))


@dataclass(frozen=True, slots=True)
class Crash:
    """The child is dead: another attempt follows."""

    failure: Failure
    was_told: bool

    def end(self, store: LedgerStore, call: Call, owner: str) -> None:
        """Free the claims of that owner, with a crash counted."""
        if store.free_dead(
            call.identity.digest,
            owner_prefix=owner,
            republish=settings().republish_after,
            failure=self.failure,
        ):
            doubted.tell(store, call.identity.digest, worker=self.failure.worker)

    def end_undone(self, request: Any, call: Call) -> None:
        """The start of a redelivered copy was counted before it began: that is not a crash more."""
        header = (request.request_dict or {}).get(HEADER)
        is_ours = from_header(header, task_name=call.task, task_id=request.id) is not None
        if not self.was_told and not is_redelivered(request.delivery_info, is_ours and header):
            breaker.guard(lambda: undone.record(request.task, call, undone.crashed(self.failure)))


@dataclass(frozen=True, slots=True)
class Timeout:
    """The child is being killed for its hard time limit, and its message acknowledged."""

    failure: Failure

    def end(self, store: LedgerStore, call: Call, owner: str) -> None:
        """Fail the claims of that owner."""
        digest = call.identity.digest
        if store.fail_dead(
            digest,
            owner_prefix=owner,
            reason=Reason.RETRIES_USED_UP,
            failure=self.failure,
            retention=settings().dead_letter_retention,
        ):
            entry = store.read(digest, task_id=call.task_id)
            announce_end(call, State.FAILED if entry is None else entry.state, self.failure)

    def end_undone(self, request: Any, call: Call) -> None:
        """Fail the key of an atomic run, as soon as its transaction has ended."""
        undone.record_soon(
            breaker.guard,
            request.task,
            call,
            undone.failed(self.failure),
            told=lambda: announce_end(call, State.FAILED, self.failure),
        )


def was_told_to_stop(error: WorkerLostError) -> bool:
    """Whether the child ended by the signal that stops a worker's processes: its body was unwound."""
    return any(f" {status} " in str(error) for status in _TOLD_TO_STOP)


def announce_end(call: Call, state: State, failure: Failure) -> None:
    """Say that a key has become a dead letter."""
    announce(signals.dead_lettered, sender=call.task, using=None, call=call, state=state, failure=failure)
