"""``self.idempotency`` in a guarded run: what a body can read of its attempt and ask of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from ..states import Category, Reason
from .context import BatchPart, Done, downstream_key
from .record import Record

T = TypeVar("T")


class Handle:
    """See :class:`~.context.Idempotency`; the attempt does what differs between the modes."""

    def __init__(self, attempt: Any) -> None:
        self._attempt = attempt
        claim = attempt.claim
        self.key = claim.call.identity.key_text
        self.scope = claim.call.identity.scope
        self.token = claim.token
        self.attempt = claim.grant.attempts
        self.previous_attempt_died = claim.grant.reason is Reason.OWNER_DIED

    @property
    def lost(self) -> bool:
        """Whether another attempt has the key, or may: the lease is over and the ledger does not answer.

        Once true it stays true: the attempt cannot complete any more, and the call is run again.
        """
        return bool(self._attempt.tells_lost())

    def downstream_key(self, purpose: str) -> str:
        """The same in every attempt of this work."""
        claim = self._attempt.claim
        return downstream_key(claim.digest, claim.grant.generation, purpose)

    def external(self) -> AbstractContextManager[None]:
        """A context around an effect outside the database."""
        found: AbstractContextManager[None] = self._attempt.outside()
        return found

    def complete(self) -> AbstractContextManager[Done]:
        """A transaction whose commit also completes the key."""
        found: AbstractContextManager[Done] = self._attempt.completing()
        return found

    def step(
        self, name: str, function: Callable[..., T], /, *args: Any, external: bool = False, **kwargs: Any
    ) -> T:
        """The kept value of a step, or that of ``function(*args, **kwargs)``, which is kept."""
        found: T = self._attempt.step(name, function, args, kwargs, external=external)
        return found

    @property
    def batch(self) -> BatchPart | None:
        """Which part of which batch this call works on."""
        found: BatchPart | None = self._attempt.records.part()
        return found

    def records(self, values: Iterable[Any]) -> Iterator[Record]:
        """The records of the chunk that are still to be done."""
        found: Iterator[Record] = self._attempt.records.of(values)
        return found

    def record(self, index: int | Iterable[int], outcome: str | Category, error: object = None) -> None:
        """Give an outcome to records in the open transaction."""
        self._attempt.records.note(index, outcome, error)

    def progress(self, done: float, total: float | None = None, note: str = "") -> None:
        """Report how far the body is."""
        self._attempt.report(done, total, note)
