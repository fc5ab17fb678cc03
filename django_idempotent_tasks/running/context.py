"""Holds the running attempt, which a body reaches as ``self.idempotency`` or ``current``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Protocol, TypeVar
from uuid import UUID

T = TypeVar("T")


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


@contextmanager
def entered(attempt: Any) -> Iterator[None]:
    """Make ``attempt`` the running one."""
    token = _active.set(attempt)
    try:
        yield
    finally:
        _active.reset(token)


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
