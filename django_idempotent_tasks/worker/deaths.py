"""The ways in which a worker's parent ends a dead child's claim; which of them is chosen in ``parent``."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from time import sleep
from typing import Any

from kombu.asynchronous import get_event_loop

from ..ledger import orphans
from ..ledger.atomic import Recorded
from ..ledger.stores import LedgerStore
from ..ledger.values import Call, Failure
from ..messages.header import carried
from ..running.delivery import is_redelivered
from .breaker import breaker, on_own_connection

logger = logging.getLogger("django_idempotent_tasks")

#: Seconds between tries while the dead child's transaction still holds the key: the database finishes the
#: child's last statement before it notices that the child is gone.
PAUSES = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8)

#: The same where the dead child's message goes back right after that: the worker waits no longer.
MOMENTS = (0.02, 0.05, 0.1)


def record_soon(record: Callable[[], Recorded]) -> None:
    """Record the end of a lost atomic run; waits up to 0.2 s until the database has rolled it back."""
    for moment in MOMENTS:
        if record() is not Recorded.HELD:
            return
        sleep(moment)
    record()


def record_when_free(call: Call, record: Callable[[], Recorded]) -> None:
    """Record the end of a killed atomic run now, or as soon as its transaction has let the key go."""
    pauses = iter(PAUSES)

    def attempt() -> None:
        if record() is not Recorded.HELD:
            return
        pause, hub = next(pauses, None), get_event_loop()
        if pause is None or hub is None:
            logger.error(
                "%s (%s): its end was not recorded, since its key is still held", call.task, call.task_id
            )
        else:  # on the worker's own event loop: no thread holds a connection while it forks a new child
            hub.call_later(pause, lambda: breaker.guard(attempt))

    breaker.guard(attempt)


class Ending(ABC):
    """What happened to a child, and how its parent ends the child's claim."""

    @abstractmethod
    def end(self, store: LedgerStore, call: Call, owner: str) -> None:
        """End the child's claim; ``owner`` is how the name of its owner begins."""

    @abstractmethod
    def end_rolled_back(self, request: Any, call: Call, owner: str) -> None:
        """End an atomic run, whose transaction was rolled back and has left nothing in the ledger."""


@dataclass(frozen=True, slots=True)
class Crash(Ending):
    """The child died while its worker goes on: a crash is counted, and another attempt follows.

    That includes a child that alone was told to end, took that for a stop of its worker and gave its key
    back: the row still names the child as its owner.
    """

    failure: Failure

    def end(self, store: LedgerStore, call: Call, owner: str) -> None:
        """Free the key, with a crash counted."""
        orphans.free_crashed(store, call, owner=owner, failure=self.failure)

    def end_rolled_back(self, request: Any, call: Call, owner: str) -> None:
        """Count a crash, unless the child counted it before it began and has not taken it back."""
        if _was_counted(request, call):
            breaker.guard(lambda: on_own_connection(lambda store: self.end(store, call, owner)))
        else:
            breaker.guard(lambda: record_soon(lambda: orphans.record_crash(request.task, call, self.failure)))


@dataclass(frozen=True, slots=True)
class Killed(Crash):
    """The child is being killed for its hard time limit, and its message comes back."""

    def end_rolled_back(self, request: Any, call: Call, owner: str) -> None:  # noqa: ARG002  as the others
        """Count a crash, unless the child did so before it began: the kill leaves no time to take it back."""
        if not _was_counted(request, call):
            record_when_free(call, lambda: orphans.record_crash(request.task, call, self.failure))


@dataclass(frozen=True, slots=True)
class Stopped(Ending):
    """The child ended with its worker, or was killed for another call: no crash, whatever signal it got."""

    failure: Failure

    def end(self, store: LedgerStore, call: Call, owner: str) -> None:
        """Free the key, unless the child gave it back itself."""
        orphans.free_stopped(store, call, owner=owner, worker=self.failure.worker)

    def end_rolled_back(self, request: Any, call: Call, owner: str) -> None:  # noqa: ARG002  as the others
        """Take back the crash that the child counted before it began, unless the child has done so.

        Where the message does not come back, the ledger gets the call: nothing else has it.
        """
        if _was_counted(request, call):
            breaker.guard(lambda: orphans.uncount_start(request.task, call))
        elif not _comes_back(request.task):
            record_when_free(call, lambda: orphans.record_stop(request.task, call))


@dataclass(frozen=True, slots=True)
class Timeout(Ending):
    """The child is being killed for its hard time limit, and its message is acknowledged."""

    failure: Failure

    def end(self, store: LedgerStore, call: Call, owner: str) -> None:
        """Fail the key."""
        orphans.fail_timed_out(store, call, owner=owner, failure=self.failure)

    def end_rolled_back(self, request: Any, call: Call, owner: str) -> None:  # noqa: ARG002  as the others
        """Fail the key, as soon as the run's transaction has ended."""
        record_when_free(call, lambda: orphans.record_timeout(request.task, call, self.failure))


def _was_counted(request: Any, call: Call) -> bool:
    """Whether the child counted a crash before it began this atomic run: it does for a redelivered one."""
    own = carried(request.request_dict, task_name=call.task, task_id=request.id)
    return is_redelivered(request.delivery_info, own and own.header)


def _comes_back(task: Any) -> bool:
    """Whether Celery puts the message of a lost child back; it may not, where it sends a retry instead."""
    is_retried = getattr(task, "retry_on_worker_lost", False)  # of Celery 5.7
    return bool(task.acks_late and task.reject_on_worker_lost and not is_retried)
