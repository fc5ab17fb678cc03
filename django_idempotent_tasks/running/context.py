"""Holds the running attempt, which a body reaches as ``self.idempotency`` or ``current``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Protocol, TypeVar
from uuid import UUID

from .. import signals
from ..signals import announce
from ..states import Category
from .record import Record

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class BatchPart:
    """What ``.batch`` is: the batch of a call, the index of its first record there, and how many it has.

    The records of a chunk that a redrive of single records made do not follow each other: ``Record.index``
    is right in every chunk.
    """

    id: UUID
    offset: int
    size: int


@dataclass(slots=True)
class Done:
    """What ``.complete()`` yields; ``result`` is stored with the completion."""

    result: Any = None


class Idempotency(Protocol):
    """What a body may know and do about its own attempt."""

    @property
    def key(self) -> str:
        """The key in its form for people."""

    @property
    def scope(self) -> str | None:
        """The tenant, or None."""

    @property
    def token(self) -> int:
        """The fencing token of this attempt; it grows with every claim of the key. 0 in a plain call."""

    @property
    def attempt(self) -> int:
        """1 for the first attempt of this work, counting those whose worker died."""

    @property
    def previous_attempt_died(self) -> bool:
        """Whether the attempt before this one ended with its worker: parts of it may have happened."""

    @property
    def lost(self) -> bool:
        """Whether this process knows that it no longer owns the key; stop causing effects then."""

    def downstream_key(self, purpose: str) -> str:
        """A key of 40 hexadecimal characters for a provider that honours idempotency keys.

        The same in every attempt, takeover and redrive of this work; another for new work under
        the same key, and for another ``purpose``.
        """

    def external(self) -> AbstractContextManager[None]:
        """Around an effect outside the database, in a leased task.

        With ``at_most_once`` the row is marked first; whatever interrupts the attempt from then on,
        before it completes, ends in REVIEW instead of another run: nobody knows what has happened.
        Only errors that you have named keep their meaning: a permanent one inside or after it is
        FAILED, a transient one raised inside it means that the effect has not happened. Raises
        :class:`LeaseLost` when another attempt has taken over, in an atomic task RuntimeError, and
        :class:`OuterTransaction` inside a transaction on SQLite, where the row cannot be marked
        outside that transaction.
        """

    def complete(self) -> AbstractContextManager[Done]:
        """A transaction whose commit also completes the key: writes inside it happen exactly once.

        Set ``.result`` of what it yields to store a result. Raises :class:`LeaseLost`, and rolls
        back, when the key was taken over. What the body raises afterwards is logged, not a failure.
        Raises :class:`PermanentError` where the body has sent COMMIT or ROLLBACK inside it, as do a step
        and a record's block.
        """

    def step(
        self, name: str, function: Callable[..., T], /, *args: Any, external: bool = False, **kwargs: Any
    ) -> T:
        """Run ``function(*args, **kwargs)`` once for this work, in a leased task, and give its value.

        A later attempt (a retry, a takeover, a redrive) gets the kept value, and the function is not run.
        Its writes on the ledger's database and its value are one transaction, which is rolled back, with
        :class:`LeaseLost`, when the key was taken over. ``external=True`` is for an effect outside the
        database: the function runs outside a transaction and its value is kept afterwards, so that it runs
        at least once; give the provider ``downstream_key(name)``. With ``at_most_once`` that counts as
        :meth:`external`.

        The value is given as it comes back from JSON, in the first attempt as well. One that is no JSON, is
        above ``MAX_RESULT`` characters or quotes a sensitive argument raises :class:`ConfigurationError`
        before anything is committed. Raises :class:`OuterTransaction` inside a transaction; RuntimeError
        inside another step, after :meth:`complete`, for a name that was used in this attempt, and in an
        atomic task. A step that raised keeps nothing, and may be called again. A plain call, which has
        no key, runs the function and keeps nothing.
        """

    @property
    def batch(self) -> BatchPart | None:
        """Which part of which batch this call works on; None for a call that ``submit_batch`` did not send.

        The first look is a query. RuntimeError in an atomic task.
        """

    def records(self, values: Iterable[Any]) -> Iterator[Record]:
        """Those of a chunk's records that are still to be done: without an outcome, or to be tried again.

        ``values`` is the argument ``records`` as it came. ``with record:`` around the work for one is a
        transaction of its own on the ledger's database: its writes and its outcome are committed together,
        and refused together, with :class:`LeaseLost`, once another attempt has asked for its records. So an
        attempt goes on behind the last record that an earlier one has done. An error in the block rolls back
        that record's writes alone, and the loop goes on. Its outcome is given by the task's rules, as for a
        whole call: fatal, retryable or manual_review; an error that no rule knows is retryable, unless it is
        a mistake of the program or its data (TypeError, ValidationError ...). Errors that end an attempt are
        raised on: a lost lease, the time limits, ``self.retry()``, Ignore, Reject.

        When the body has returned, records that are retryable make the chunk a retry by the task's own
        policy (:class:`RecordsLeft`), which tries them alone. Records without an outcome are a mistake: the
        chunk fails, and nothing that was done is repeated. Raises RuntimeError when called twice, after
        :meth:`complete`, with other records, in a call that is no chunk, and in an atomic task;
        :class:`OuterTransaction` where a record's block begins inside a transaction. A plain call runs each
        block in a transaction, and lets its error out.
        """

    def record(self, index: int | Iterable[int], outcome: str | Category, error: object = None) -> None:
        """Give an outcome to one record or several, in the open transaction, for a body that writes in bulk.

        ``index`` is ``Record.index``, ``outcome`` ``"ok"``, ``"fatal"``, ``"retryable"`` or
        ``"manual_review"``, ``error`` the error or the reason of a failure. Call it in the transaction of
        the writes: both are committed, or neither. Raises :class:`LeaseLost` when the key was taken over,
        ValueError for another index or outcome, RuntimeError as :meth:`records` does.
        """

    def progress(self, done: float, total: float | None = None, note: str = "") -> None:
        """Tell people and HTTP clients how far a leased body is; call it as often as you like.

        The heartbeat's thread writes the newest report beside the key, at most once a second, and
        the last report is written when the body ends. ``done`` may pass a ``total`` that was guessed
        too low. ``note`` is kept on one line of 200 characters, for whoever may see the job. A
        database that is away, or a lost lease, raises nothing here. A new attempt begins without a
        report. Raises ValueError for anything but a number from 0 to 2**53 - 1, in an atomic task
        RuntimeError.
        """


_active: ContextVar[Any] = ContextVar("idempotent_attempt", default=None)


def active() -> Any:
    """The attempt that runs in this context, or None."""
    return _active.get()


class Entered:
    """Inside, ``attempt`` is the running one."""

    __slots__ = ("_attempt", "_token")

    def __init__(self, attempt: Any) -> None:
        self._attempt = attempt

    def __enter__(self) -> None:
        self._token = _active.set(self._attempt)

    def __exit__(self, *_error: object) -> None:
        _active.reset(self._token)


def announce_start(attempt: Any) -> None:
    """Send ``attempt_started``, at once and not after a commit."""
    announce(signals.attempt_started, sender=attempt.task.name, using=None, claim=attempt.claim)


def downstream_key(digest: UUID, generation: int, purpose: str) -> str:
    """SHA-256 over key, generation and purpose, shortened to 40 hexadecimal characters."""
    return sha256(f"{digest.hex}|{generation}|{purpose}".encode()).hexdigest()[:40]


class _Current:
    """``current``: stands for the running attempt, wherever in the call stack it is used."""

    def __getattr__(self, name: str) -> Any:
        attempt = active()
        if attempt is None:
            msg = f"No idempotent task is running here, so current.{name} has no meaning."
            raise RuntimeError(msg)
        return getattr(attempt.handle, name)


current: Idempotency = _Current()  # a proxy: every attribute is forwarded
