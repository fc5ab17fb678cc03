"""The values that the ledger takes and returns: frozen, without behaviour, without Django."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from time import monotonic
from uuid import UUID

from ..identity.key import Identity
from ..messages.turns import Turn
from ..states import Category, Reason, State
from .reservable import OfCall


@dataclass(frozen=True, slots=True)
class Call:
    """One request for the work of a key; ``message`` is its text to send again, or None.

    ``named_here``: the message arrived without an identity, which was computed from its arguments. Where
    the ledger has a row with the call's task id, that row's key is the right one. ``turn`` is None where
    no message was delivered: such a call is never out of date.
    """

    identity: Identity
    task: str
    task_id: str
    message: str | None
    named_here: bool = False
    turn: Turn | None = None


@dataclass(frozen=True, slots=True)
class Wanted(OfCall):
    """A call that is to be reserved: sent again ``republish`` seconds after its time, ``wait`` from now.

    ``sends`` is 0, or -1 when no message goes out for it now.
    """

    call: Call
    wait: int
    republish: int
    sends: int

    @property
    def digest(self) -> UUID:
        """The key's digest."""
        return self.call.identity.digest


@dataclass(frozen=True, slots=True)
class Grant:
    """The right to run, as the store hands it out: the fencing token and the history of the key."""

    token: int
    generation: int
    attempts: int
    crashes: int
    reason: Reason


@dataclass(frozen=True, slots=True)
class Claim:
    """A granted call: what completion, failure and heartbeat must name to be accepted."""

    call: Call
    owner: str
    grant: Grant
    lease: int
    #: When this process made it, by ``time.monotonic()``: what listens measures the run by it.
    began: float = field(default_factory=monotonic, compare=False, repr=False)

    @property
    def digest(self) -> UUID:
        """The key's digest."""
        return self.call.identity.digest

    @property
    def token(self) -> int:
        """The fencing token."""
        return self.grant.token


@dataclass(frozen=True, slots=True)
class Entry:
    """One row of the ledger as it was read, with the time tests made by the database's clock.

    ``is_open`` is whether a claim is allowed by time now; ``opens_in`` is the rest in seconds
    (negative when past). Both are None in states without a time test. ``no_message`` is whether
    nothing is stored that the sweeper could send; ``is_discarded`` whether a person has discarded
    the dead letter; ``in_external`` whether its owner is, or ended, inside ``external()``: such a
    key is never open, whatever the time. ``answered_for`` and ``answers``: for how many seconds sweepers, and
    copies that wait, have noted without a gap that the ledger answers, None where none ever has, and whether
    they still do; ``note_lasts``: for how many seconds the latest note is good (negative when past).
    ``turn`` is that of the stored message, None without one. ``lease``: the seconds that its owner was given.
    ``is_noted``: the call for which the row was read has been recorded as a refused duplicate.
    """

    state: State
    reason: Reason
    token: int
    generation: int
    attempts: int
    crashes: int
    task: str
    scope: str | None
    task_id: str
    runner_task_id: str | None
    owner: str | None
    fingerprint: UUID | None
    result: str | None
    is_open: bool | None
    opens_in: float | None
    was_answered: bool
    no_message: bool = False
    is_discarded: bool = False
    in_external: bool = False
    answered_for: float | None = None
    answers: bool = False
    note_lasts: float = 0.0
    turn: Turn | None = None
    lease: int = 0
    is_noted: bool = False


@dataclass(frozen=True, slots=True)
class Failure:
    """What is recorded of a failed attempt; texts are bounded and storable everywhere.

    ``error`` is the class, ``signature`` groups failures of one kind, ``worker`` says where.
    """

    error: str
    description: str
    traceback: str
    signature: str
    category: Category
    worker: str


@dataclass(frozen=True, slots=True)
class Answer:
    """How a call ended whose key now belongs to a later call."""

    state: State
    reason: Reason
    result: str | None


@dataclass(frozen=True, slots=True)
class FollowUpCall:
    """The call that runs once its key's present one has ended, not before ``due_in`` seconds from now."""

    task_id: str
    message: str
    due_in: float


@dataclass(frozen=True, slots=True)
class Promoted:
    """A follow-up that has its key now, with the row's token. ``is_due``: its message is to be sent now."""

    call: Call
    token: int
    is_due: bool


@dataclass(frozen=True, slots=True)
class RedriveBite:
    """What one bite of a redrive operation did; ``seen`` is how many keys it had looked at before."""

    seen: int
    redriven: int
    skipped: int
    last_signature: str | None
    last_at: datetime | None
    last_digest: UUID | None
    is_last: bool


@dataclass(frozen=True, slots=True)
class Due:
    """One row that the sweeper moved: freed if its owner was gone, to be published if ``publish``.

    ``size`` is how many octets its stored message has, None where nothing is stored: the message itself
    is read only where it is published. ``sends`` above 0: a message of this row was sent before, and may
    still be in its queue.
    """

    digest: UUID
    token: int
    state: State
    crashes: int
    task: str
    size: int | None
    publish: bool
    sends: int = 0


@dataclass(frozen=True, slots=True)
class Times:
    """How long runs took or calls waited, in seconds; ``buckets`` has one count more than ``BOUNDS``."""

    count: int
    seconds: float
    longest: float
    buckets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TaskTotals:
    """What became of keys of one task: the columns of an hourly count."""

    task: str
    created: int
    succeeded: int
    failed: int
    duplicates: int
    crashes: int
    run: Times
    wait: Times
    last_failure_at: datetime | None
    would_refuse: int = 0


@dataclass(frozen=True, slots=True)
class Claimed:
    """The call may run."""

    claim: Claim
    took_over: bool


@dataclass(frozen=True, slots=True)
class Waiting:
    """The call may run later: its key is held or not due for ``seconds``."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Refused:
    """Another call has the key. ``is_noted``: that is recorded already."""

    reason: str
    holder: str
    answer: Answer
    opens_in: float | None
    is_noted: bool = False


@dataclass(frozen=True, slots=True)
class Answered:
    """This very call ended earlier."""

    answer: Answer


@dataclass(frozen=True, slots=True)
class OutOfDate:
    """The row has the message of a later turn of this very call, which the sweeper would send."""


@dataclass(frozen=True, slots=True)
class Reserved:
    """The call has reserved the key and waits to be run."""

    token: int


@dataclass(frozen=True, slots=True)
class Following:
    """The call is accepted: it is the follow-up of its key, whose present call is ``holder``."""

    holder: str


@dataclass(frozen=True, slots=True)
class Abandoned:
    """The key's owner is gone and has left no message to send: any call may claim the key."""


Refusal = Waiting | Refused | Answered | OutOfDate | Following
Outcome = Claimed | Refusal
