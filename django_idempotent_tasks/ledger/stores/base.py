"""The contract of a ledger store: each verb is one atomic transition, judged by the database's clock."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from uuid import UUID

from django.db.backends.base.base import BaseDatabaseWrapper

from ...identity.key import Identity
from ...states import Reason, State
from ..values import Answer, Call, Claim, Entry, Failure, Grant
from .batching import Batching
from .bracketing import Bracketing
from .deciding import Deciding
from .duplicates import Duplicates
from .follow_ups import FollowUps
from .many import ManyCalls
from .session import Session
from .upkeep import Upkeep


class LedgerStore(Upkeep, ManyCalls, Batching, Bracketing, FollowUps, Deciding, Duplicates):
    """Where the ledger lives.

    Promises of every implementation: of any number of simultaneous claims of one key exactly one is
    granted; a token is granted once; a verb that names a claim changes nothing unless the row still
    has that claim's token, owner and state. Durations are whole seconds. Every verb may raise the
    database errors of Django; after one the outcome is unknown until :meth:`read` tells.
    """

    #: Whether an open transaction may end unseen, so that an atomic run must look for its claim at its end.
    confirms = False

    def __init__(self, connection: BaseDatabaseWrapper) -> None:
        self.connection = connection

    @abstractmethod
    def claim_new(self, call: Call, *, owner: str, lease: int, durable: bool = True) -> Grant | None:
        """Claim a key that has no row (``INSERT ... ON CONFLICT DO NOTHING``); None when it has one.

        Of a call that is ``named_here`` also None when its task id has a row, under whichever key.
        ``durable=False``: a crash of the server may undo it, if nothing durable was committed since.
        """

    @abstractmethod
    def named(self, task: str, *, task_id: str) -> Identity | None:
        """The identity of the key that this call of a task has a row under; None without one."""

    @abstractmethod
    def reserve_new(self, call: Call, *, wait: int, sends: int) -> int | None:
        """Write a PENDING row in the open transaction, due to be sent again after ``wait``; its token.

        None when the key has a row, or another open transaction is reserving it: never waits for
        that one's end. ``sends`` is 0, or -1 when no message goes out for it now.
        """

    @abstractmethod
    def reserve_finished(self, call: Call, *, wait: int, sends: int, seen: Entry, window: int) -> int | None:
        """Reserve a finished key for another call, the replaced one answerable for ``window``; its token."""

    @abstractmethod
    def claim_reserved(self, call: Call, *, owner: str, lease: int, durable: bool = True) -> Grant | None:
        """Claim what this very call reserved, or retries and is due; None when it is not so.

        None also where the row is that of another task or scope, or has a message of another turn than
        the call's, where that is known.
        """

    @abstractmethod
    def read(self, digest: UUID, *, task_id: str) -> Entry | None:
        """The row, its time tests, and whether ``task_id`` is an earlier, replaced call of the key.

        ``turn`` is that of the stored message: its beginning tells it.
        """

    @abstractmethod
    def claim_open(
        self, call: Call, *, owner: str, lease: int, seen: Entry, counted: bool = False
    ) -> Grant | None:
        """Claim within the generation: an expired lease, a due retry, one's own reservation.

        ``counted``: ``seen`` is this start, counted as a crash beforehand: due, and the count is taken back.
        """

    @abstractmethod
    def claim_finished(self, call: Call, *, owner: str, lease: int, seen: Entry, window: int) -> Grant | None:
        """Claim a finished key for another call; the replaced call stays answerable for ``window``."""

    @abstractmethod
    def atomic_new(self, call: Call, *, owner: str, retention: int, window: int) -> Grant | None:
        """Claim a key without a row, completed already: nobody sees it before the open transaction commits.

        This and the other ``atomic_`` claims do not wait for another transaction that has the key: None
        then. A bounded wait, or one for a sender that holds keys without a lock each, is the store's to say.
        """

    @abstractmethod
    def atomic_reserved(self, call: Call, *, owner: str, retention: int, window: int) -> Grant | None:
        """The same for what this very call reserved, or retries and is due."""

    @abstractmethod
    def atomic_open(
        self, call: Call, *, owner: str, retention: int, window: int, seen: Entry, counted: bool
    ) -> Grant | None:
        """The same within the generation, as :meth:`claim_open`."""

    @abstractmethod
    def atomic_finished(
        self, call: Call, *, owner: str, retention: int, window: int, seen: Entry
    ) -> Grant | None:
        """The same for a finished key and another call, as :meth:`claim_finished`."""

    @abstractmethod
    def atomic_result(self, claim: Claim, *, result: str | None, reason: Reason) -> bool:
        """Store what the body came to, in the transaction that claimed; False when that has ended."""

    @abstractmethod
    def take_back(self, claim: Claim) -> bool:
        """SUCCEEDED to RUNNING for the atomic claim itself, which its body committed before its end."""

    @abstractmethod
    def holding(self, call: Call) -> AbstractContextManager[bool]:
        """A short transaction that has the key to itself; gives False when another has it, without a wait."""

    @abstractmethod
    def transaction_problem(self) -> str | None:
        """Why a commit of the open transaction would not keep what was written in it; None when it would."""

    @abstractmethod
    def has_ended(self) -> bool:
        """Whether the transaction that Django has open is over, where no statement is needed to tell."""

    @abstractmethod
    def session(self, *, at_any_cost: bool = True) -> Session:
        """Whether the next statement is committed by itself, as the driver says, whatever Django believes.

        Where the driver cannot say so without a round trip it is asked only ``at_any_cost``. Never raises.
        """

    @abstractmethod
    def answer(self, digest: UUID, *, task_id: str) -> Answer | None:
        """How a replaced call ended."""

    @abstractmethod
    def renew(self, held: Sequence[Claim]) -> set[UUID]:
        """Extend the leases that are still owned, also one that is over; the digests that were extended.

        By token and owner: what somebody has taken over or freed since is not extended. Never waits for a
        row that a completion has locked.
        """

    @abstractmethod
    def progress(self, claim: Claim, *, text: str) -> bool:
        """Write how far the owner is, and nothing else: no lease is extended.

        False when the claim is no longer the owner, or another transaction has the row: never waits.
        """

    @abstractmethod
    def complete(
        self, claim: Claim, *, result: str | None, reason: Reason, retention: int, window: int
    ) -> bool:
        """RUNNING to SUCCEEDED; False when the claim is no longer the owner."""

    @abstractmethod
    def retry(
        self,
        claim: Claim,
        *,
        message: str | None,
        reason: Reason,
        wait: int,
        republish: int,
        failure: Failure | None = None,
    ) -> bool:
        """RUNNING to RETRY, due after ``wait``, sent by the sweeper ``republish`` after that.

        ``message`` None keeps the stored one; "" forgets it (the new one cannot be stored). Here and
        below a ``failure`` is recorded in the same transaction, once; what the database does not take
        of it is left out, and never costs the transition. With ``Reason.RELEASED`` the row keeps the
        owner's name, for :meth:`free_dead`.
        """

    @abstractmethod
    def fail(self, claim: Claim, *, state: State, reason: Reason, failure: Failure, retention: int) -> bool:
        """RUNNING to FAILED or REVIEW with the recorded error."""

    @abstractmethod
    def free_dead(
        self,
        digest: UUID,
        *,
        owner_prefix: str,
        republish: int,
        unseen: int = 0,
        failure: Failure | None = None,
    ) -> bool:
        """RUNNING to RETRY for an owner that is known to be dead: a crash, with growing waits.

        The same for what that owner has given back (``Reason.RELEASED``) and nobody has claimed since.
        REVIEW instead where the owner died inside ``external()``. ``unseen`` attempts before it have left
        nothing and are counted too. False when the row has another owner.
        """

    @abstractmethod
    def fail_dead(
        self, digest: UUID, *, owner_prefix: str, reason: Reason, failure: Failure, retention: int
    ) -> bool:
        """RUNNING to FAILED for an owner that cannot do it itself; False when the row has another owner.

        REVIEW instead where it was inside ``external()``.
        """

    @abstractmethod
    def record_death(self, digest: UUID, *, seen: Entry) -> None:
        """Record the attempt that ``seen``, freed of a dead owner, tells of, unless it was recorded then."""

    @abstractmethod
    def enter_external(self, claim: Claim) -> bool:
        """Note that the owner is about to cause an effect outside; False when it is no longer the owner.

        From now on until the claim is settled its death means REVIEW.
        """

    @abstractmethod
    def keep_step(self, claim: Claim, name: str, *, value: str | None, elapsed: float) -> bool:
        """Keep the value of a step that took ``elapsed`` seconds; False when the claim has lost its key.

        In an open transaction nobody takes the key over before its end. A name is kept once a generation.
        """

    @abstractmethod
    def step_values(self, claim: Claim) -> dict[str, str | None]:
        """The kept values of the claim's generation, by the names of their steps."""

    @abstractmethod
    def together(self) -> AbstractContextManager[None]:
        """What is done inside is one transaction, or a savepoint of the open one."""

    @abstractmethod
    def record_plain(
        self, task: str, task_id: str, *, attempt: int, state: State, failure: Failure, message: str | None
    ) -> None:
        """Record a failure of a task that is not ours, with the message that would run it again."""

    @abstractmethod
    def cancel(self, digest: UUID, *, window: int, task_id: str | None = None) -> bool:
        """PENDING, RUNNING or RETRY to CANCELLED, where given only if ``task_id`` has or runs it.

        False when nothing live was there or it is locked. Here and in the two below the message of a
        redrive stays, for as long as that of a dead letter would; any other is forgotten.
        """

    @abstractmethod
    def cancel_waiting(self, task_ids: Sequence[str], *, window: int) -> int:
        """PENDING or RETRY to CANCELLED for accepted calls, and the end of follow-ups; how many rows."""

    @abstractmethod
    def expire(self, digest: UUID, *, task_id: str, window: int) -> bool:
        """PENDING to CANCELLED for a call whose message expired; False when it was not PENDING."""

    @abstractmethod
    def fail_unknown(
        self, digest: UUID, *, task_id: str, sends: int, failure: Failure, retention: int
    ) -> bool:
        """PENDING or RETRY to FAILED for a task whose name no worker knows, once sent ``sends`` times."""

    @abstractmethod
    def side_connection(self) -> AbstractContextManager[LedgerStore]:
        """The same store on a short-lived connection of its own, with short timeouts, closed at the end."""

    def bounded(self) -> AbstractContextManager[None]:
        """Inside, the connection is cut where the database answers nothing for seconds, if that can be done.

        Not for a transaction of the caller's, which would be cut as well.
        """
        return nullcontext()
