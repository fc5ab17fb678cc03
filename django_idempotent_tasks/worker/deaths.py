"""Writes, in a worker's parent, how the claim of a dead or killed child ends: crash, stop or time limit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from .. import signals
from ..conf import settings
from ..ledger import doubted, undone
from ..ledger.stores import LedgerStore
from ..ledger.values import Call, Failure
from ..messages.header import carried
from ..running.delivery import is_redelivered
from ..signals import announce
from ..states import Reason, State
from .breaker import breaker, on_own_connection


class Ending(ABC):
    """What became of a child, as its parent writes it."""

    @abstractmethod
    def end(self, store: LedgerStore, call: Call, owner: str) -> None:
        """End the claim of the owner whose name begins so."""

    @abstractmethod
    def end_undone(self, request: Any, call: Call, owner: str) -> None:
        """End an atomic run, whose transaction has left nothing."""


@dataclass(frozen=True, slots=True)
class Crash(Ending):
    """The child is dead, and nobody stops its worker: another attempt follows, with a crash counted.

    Also where the child was told to end and took that for a stop of its worker: what it gave back
    then is still marked as its own.
    """

    failure: Failure

    def end(self, store: LedgerStore, call: Call, owner: str) -> None:
        """Free the claims of that owner, with a crash counted."""
        if store.free_dead(
            call.identity.digest,
            owner_prefix=owner,
            republish=settings().republish_after,
            failure=self.failure,
        ):
            doubted.tell(store, call.identity.digest, worker=self.failure.worker)

    def end_undone(self, request: Any, call: Call, owner: str) -> None:
        """A redelivered copy counted its start before it began: a crash more only if it took that back."""
        if _was_counted(request, call):
            breaker.guard(lambda: on_own_connection(lambda store: self.end(store, call, owner)))
        else:
            self._record(request, call)

    def _record(self, request: Any, call: Call) -> None:
        breaker.guard(lambda: undone.record(request.task, call, undone.crashed(self.failure)))


@dataclass(frozen=True, slots=True)
class Killed(Crash):
    """The child is being killed for its hard time limit, and its message comes back."""

    def end_undone(self, request: Any, call: Call, owner: str) -> None:  # noqa: ARG002  as the others
        """A counted start stays counted: the kill follows before the child would take it back."""
        if not _was_counted(request, call):
            self._record(request, call)

    def _record(self, request: Any, call: Call) -> None:
        undone.record_soon(breaker.guard, request.task, call, undone.crashed(self.failure))


@dataclass(frozen=True, slots=True)
class Stopped(Ending):
    """The child ended while its worker is being stopped: nobody has crashed, whatever signal it got."""

    failure: Failure

    def end(self, store: LedgerStore, call: Call, owner: str) -> None:
        """Free what the child did not give back itself."""
        entry = store.read(call.identity.digest, task_id=call.task_id)
        if entry is None or entry.state is not State.RUNNING or not (entry.owner or "").startswith(owner):
            return
        if store.release(call.identity.digest, token=entry.token):
            doubted.tell(store, call.identity.digest, worker=self.failure.worker)

    def end_undone(self, request: Any, call: Call, owner: str) -> None:  # noqa: ARG002  as the others
        """Take a counted start back that the child did not take back itself."""
        if _was_counted(request, call):
            breaker.guard(lambda: undone.take_back(request.task, call))


@dataclass(frozen=True, slots=True)
class Timeout(Ending):
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

    def end_undone(self, request: Any, call: Call, owner: str) -> None:  # noqa: ARG002  as the others
        """Fail the key of an atomic run, as soon as its transaction has ended."""
        undone.record_soon(
            breaker.guard,
            request.task,
            call,
            undone.failed(self.failure),
            told=lambda: announce_end(call, State.FAILED, self.failure),
        )


def _was_counted(request: Any, call: Call) -> bool:
    """Whether the child counted this start of an atomic run as a crash before it began."""
    own = carried(request.request_dict, task_name=call.task, task_id=request.id)
    return is_redelivered(request.delivery_info, own and own.header)


def announce_end(call: Call, state: State, failure: Failure) -> None:
    """Say that a key has become a dead letter."""
    announce(signals.dead_lettered, sender=call.task, using=None, call=call, state=state, failure=failure)
