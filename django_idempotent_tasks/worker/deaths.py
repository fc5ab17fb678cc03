"""Decides, in a worker's parent, how the claim of a dead or killed child ends: crash, stop or time limit."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
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

#: Seconds between tries while the dead child's transaction still has the key: its server process ends the
#: statement that it was sent before it notices.
PAUSES = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8)


def record_when_free(call: Call, record: Callable[[], Recorded]) -> None:
    """Record the end of a killed atomic run now, or as soon as its transaction has let the key go."""
    pauses = iter(PAUSES)

    def attempt() -> None:
        if record() is not Recorded.HELD:
            return
        pause, hub = next(pauses, None), get_event_loop()
        if pause is None or hub is None:
            logger.error("%s (%s): its end was not recorded, its key is held", call.task, call.task_id)
        else:  # on the worker's own event loop: no thread holds a connection while it forks a new child
            hub.call_later(pause, lambda: breaker.guard(attempt))

    breaker.guard(attempt)


class Ending(ABC):
    """What became of a child, as its parent writes it."""

    @abstractmethod
    def end(self, store: LedgerStore, call: Call, owner: str) -> None:
        """End the claim of the owner whose name begins so."""

    @abstractmethod
    def end_rolled_back(self, request: Any, call: Call, owner: str) -> None:
        """End an atomic run, whose transaction was rolled back and has left nothing."""


@dataclass(frozen=True, slots=True)
class Crash(Ending):
    """The child is dead, and nobody stops its worker: another attempt follows, with a crash counted.

    Also where the child was told to end and took that for a stop of its worker: what it gave back
    then is still marked as its own.
    """

    failure: Failure

    def end(self, store: LedgerStore, call: Call, owner: str) -> None:
        """Free the claims of that owner, with a crash counted."""
        orphans.free_crashed(store, call, owner=owner, failure=self.failure)

    def end_rolled_back(self, request: Any, call: Call, owner: str) -> None:
        """A redelivered copy counted its start before it began: a crash more only if it took that back."""
        if _was_counted(request, call):
            breaker.guard(lambda: on_own_connection(lambda store: self.end(store, call, owner)))
        else:
            breaker.guard(lambda: orphans.record_crash(request.task, call, self.failure))


@dataclass(frozen=True, slots=True)
class Killed(Crash):
    """The child is being killed for its hard time limit, and its message comes back."""

    def end_rolled_back(self, request: Any, call: Call, owner: str) -> None:  # noqa: ARG002  as the others
        """A counted start stays counted: the kill follows before the child would take it back."""
        if not _was_counted(request, call):
            record_when_free(call, lambda: orphans.record_crash(request.task, call, self.failure))


@dataclass(frozen=True, slots=True)
class Stopped(Ending):
    """The child ended while its worker is being stopped: nobody has crashed, whatever signal it got."""

    failure: Failure

    def end(self, store: LedgerStore, call: Call, owner: str) -> None:
        """Free what the child did not give back itself."""
        orphans.free_stopped(store, call, owner=owner, worker=self.failure.worker)

    def end_rolled_back(self, request: Any, call: Call, owner: str) -> None:  # noqa: ARG002  as the others
        """Take a counted start back that the child did not take back itself."""
        if _was_counted(request, call):
            breaker.guard(lambda: orphans.uncount_start(request.task, call))


@dataclass(frozen=True, slots=True)
class Timeout(Ending):
    """The child is being killed for its hard time limit, and its message acknowledged."""

    failure: Failure

    def end(self, store: LedgerStore, call: Call, owner: str) -> None:
        """Fail the claims of that owner."""
        orphans.fail_timed_out(store, call, owner=owner, failure=self.failure)

    def end_rolled_back(self, request: Any, call: Call, owner: str) -> None:  # noqa: ARG002  as the others
        """Fail the key of an atomic run, as soon as its transaction has ended."""
        record_when_free(call, lambda: orphans.record_timeout(request.task, call, self.failure))


def _was_counted(request: Any, call: Call) -> bool:
    """Whether the child counted this start of an atomic run as a crash before it began."""
    own = carried(request.request_dict, task_name=call.task, task_id=request.id)
    return is_redelivered(request.delivery_info, own and own.header)
