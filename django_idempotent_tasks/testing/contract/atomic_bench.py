"""Helpers for promises about atomic runs: claims that are completed from the start."""
# ruff: noqa: S101  promises are asserted

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import timedelta

from django.db import DatabaseError, transaction

from ...ledger.values import Call, Claim, Entry, Grant
from ...states import Reason, State
from .bench import LEASE, REPUBLISH, RETENTION, WINDOW, Bench, new_owner


class Undone(Exception):
    """Takes a transaction back."""


class AtomicBench(Bench):
    """The atomic verbs with few arguments, and both ends of a transaction."""

    def atomically(self) -> AbstractContextManager[None]:
        """A transaction that is committed at the end."""
        return transaction.atomic(using=self.alias)

    @contextmanager
    def undone(self) -> Iterator[None]:
        """A transaction that is rolled back at the end, as by an error of the body."""
        with suppress(Undone), self.atomically():
            yield
            raise Undone

    @contextmanager
    def undone_somehow(self) -> Iterator[None]:
        """A transaction that the body has broken and that is rolled back, where the end may raise too."""
        with suppress(DatabaseError), self.undone():
            yield
        self.store().connection.close()

    # -- trying --

    def try_atomic(
        self, call: Call, *, owner: str = "w:1:atomic", retention: int = RETENTION, window: int = WINDOW
    ) -> Grant | None:
        """Try to claim a key without a row."""
        return self.store().atomic_new(call, owner=owner, retention=retention, window=window)

    def try_atomic_reserved(
        self, call: Call, *, owner: str = "w:1:atomic", retention: int = RETENTION, window: int = WINDOW
    ) -> Grant | None:
        """Try to claim what this very call reserved."""
        return self.store().atomic_reserved(call, owner=owner, retention=retention, window=window)

    def try_atomic_open(
        self,
        call: Call,
        *,
        seen: Entry | None = None,
        counted: bool = False,
        owner: str = "w:1:atomic",
        retention: int = RETENTION,
        window: int = WINDOW,
    ) -> Grant | None:
        """Try to claim within the generation, judged on ``seen`` or on the row as it is now."""
        seen = seen or self.seen(call)
        return self.store().atomic_open(
            call, owner=owner, retention=retention, window=window, seen=seen, counted=counted
        )

    def try_atomic_anew(
        self,
        call: Call,
        *,
        seen: Entry | None = None,
        owner: str = "w:1:atomic",
        retention: int = RETENTION,
        window: int = WINDOW,
    ) -> Grant | None:
        """Try to claim a finished key, judged on ``seen`` or on the row as it is now."""
        seen = seen or self.seen(call)
        return self.store().atomic_finished(call, owner=owner, retention=retention, window=window, seen=seen)

    # -- making things --

    def run(
        self, call: Call | None = None, *, result: str | None = None, retention: int = RETENTION
    ) -> Claim:
        """A new key whose atomic run is committed."""
        call = call or self.call()
        owner = new_owner()
        with self.atomically():
            grant = self.try_atomic(call, owner=owner, retention=retention)
            claim = self.granted(call, owner, grant, lease=0)
            if result is not None:
                self.store().atomic_result(claim, result=result, reason=Reason.DONE)
        return claim

    def retried(self, call: Call | None = None, *, wait: int = 0) -> Claim:
        """A claim that waits to be tried again."""
        claim = self.claimed(call)
        assert self.retry(claim, wait=wait), "the retry was refused"
        return claim

    def died(self, claim: Claim | None = None) -> Claim:
        """A claim whose owner is known to be dead."""
        claim = claim or self.claimed()
        assert self.store().free_dead(claim.digest, owner_prefix=claim.owner, republish=REPUBLISH)
        return claim

    def counted(self, *, crashes: int = 0) -> Claim:
        """A start that was counted as a crash before it began, the ``crashes`` before it not included."""
        return self.died(self.in_state(State.RUNNING, crashes=crashes))

    def waiting(self) -> list[Call]:
        """What an atomic run may begin with: a reservation, a due retry, the key of an owner that died."""
        return [self.reserved(), self.retried().call, self.died().call]

    def expired(self) -> Claim:
        """A claim whose lease is over, though nobody has taken it over."""
        claim = self.claimed(lease=LEASE)
        self.in_columns(claim, open_at=self.now(claim) - timedelta(seconds=1))
        return claim

    # -- looking --

    def seen_by_others(self, call: Call) -> Entry | None:
        """The row as another connection reads it."""
        with self.second_store() as second:
            return second.read(call.identity.digest, task_id=call.task_id)
