"""Holds the running attempt, which a body reaches as ``self.idempotency`` or ``current``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Protocol
from uuid import UUID


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
