"""The part of a store's contract about follow-ups: the calls that run after their key's present call.

A follow-up has a table of its own, so that the statements of all other calls are as they were. Who sends one
holds no lock on the key's row: the run's heartbeat and its end do not wait for the sender's transaction. So
the run may end before that commits, and ``promote`` is tried by each who may be the last: by the run at its
end, by the sender after its commit, and by the sweeper where one of them has died.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from uuid import UUID

from ..values import Call, FollowUpCall, Promoted


class FollowUps(ABC):
    """What senders, ended runs and the sweeper do with follow-ups, without waits for other transactions."""

    @abstractmethod
    def follow(self, call: Call, *, wait: int) -> bool:
        """Make the call the follow-up of a key that runs, or that was cancelled less than a lease ago.

        It is not sent before ``wait``. False where the key does not run, has a follow-up, or is being
        reserved by an open transaction.
        """

    @abstractmethod
    def follow_up(self, digest: UUID) -> FollowUpCall | None:
        """The key's follow-up as it was committed last; None without one."""

    @abstractmethod
    def hold(self, call: Call) -> bool:
        """Keep a key's waiting call (PENDING, RETRY) from being claimed before the open transaction ends.

        So it reads what this transaction has written. Several transactions may hold one key. False where the
        key does not wait, or is being claimed or changed now.
        """

    @abstractmethod
    def hold_follow_up(self, digest: UUID, *, message: str | None = None) -> bool:
        """Keep the follow-up from being promoted before the open transaction ends, and give it this message.

        False where there is none, or another transaction changes or, with a ``message``, holds it.
        """

    @abstractmethod
    def rewrite(self, digest: UUID, *, task_id: str, message: str) -> bool | None:
        """Give a PENDING call that waits for its time a new message, and hold it as ``hold`` does.

        False where that call was sent meanwhile, None where another transaction holds its row.
        """

    @abstractmethod
    def postpone(self, digest: UUID, *, wait: int, longest: int) -> None:
        """Put off a PENDING call that waits for its time, or the follow-up, to ``wait`` from now.

        Never to later than ``longest`` after it was made. What another transaction holds stays as it is.
        """

    @abstractmethod
    def promote(
        self, digest: UUID, *, window: int, republish: int, token: int | None = None
    ) -> Promoted | None:
        """Give a key whose call has ended to its follow-up: PENDING, of the next generation.

        The ended call stays answerable for ``window``. None where the key is live, or somebody holds the
        follow-up. After a cancel the body may still run: the key is given on after a lease, or at once where
        ``token`` is that of the cancelled run, whose body has ended. With a ``republish`` of 0 the sweeper
        sends it.
        """

    @abstractmethod
    def promotable(self, *, bite: int) -> list[UUID]:
        """At most ``bite`` keys that ``promote`` would give to their follow-ups."""

    @abstractmethod
    def cancel_follow_up(
        self, *, window: int, digest: UUID | None = None, task_id: str | None = None
    ) -> bool:
        """End a follow-up as CANCELLED, answerable for ``window``: that of this key, or with this task id.

        False where there is none, or another transaction holds it.
        """
