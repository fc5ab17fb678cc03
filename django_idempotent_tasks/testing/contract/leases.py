"""Promises of ``renew``: a lease is extended as long as nobody else has taken the key."""
# ruff: noqa: S101  promises are asserted, in plain numbers

from __future__ import annotations

from dataclasses import replace

from ...ledger.stores.clock import shifted
from ...ledger.values import Claim
from .bench import LEASE, Bench


class Renewals(Bench):
    """Heartbeats renew the leases of claims."""

    def test_a_renewal_of_nothing_extends_nothing(self) -> None:
        bystander = self.claimed()
        with self.untouched(bystander):
            assert self.store().renew([]) == set()

    def test_a_renewal_extends_the_lease_by_its_own_length(self) -> None:
        claim = self.claimed()
        with shifted(LEASE - 10), self.sets(claim, open_at=LEASE, due_at=LEASE):
            assert self.store().renew([claim]) == {claim.digest}
        with shifted(LEASE + 1):
            assert self.seen(claim.call).is_open is False

    def test_a_renewal_changes_nothing_but_the_two_times(self) -> None:
        claim = self.claimed()
        before = self.columns(claim)
        with shifted(10):
            self.store().renew([claim])
        after = self.columns(claim)
        assert before is not None
        assert after is not None
        assert {name for name in before if before[name] != after[name]} == {"open_at", "due_at"}

    def test_leases_of_different_lengths_are_renewed_together(self) -> None:
        short, long = self.claimed(lease=50), self.claimed(lease=5000)
        with shifted(40):
            assert self.store().renew([short, long]) == {short.digest, long.digest}
        with shifted(91):
            assert self.seen(short.call).is_open is True
            assert self.seen(long.call).is_open is False

    def test_a_lease_that_is_over_is_extended_while_nobody_has_taken_the_key(self) -> None:
        claim = self.claimed()
        with shifted(10 * LEASE), self.sets(claim, open_at=LEASE, due_at=LEASE):
            assert self.store().renew([claim]) == {claim.digest}
            assert self.seen(claim.call).is_open is False

    def test_a_renewal_is_by_token_and_owner(self) -> None:
        claim = self.claimed()
        later = replace(claim, grant=replace(claim.grant, token=claim.token + 1))
        with self.untouched(claim):
            assert self.store().renew([replace(claim, owner="another")]) == set()
            assert self.store().renew([later]) == set()

    def test_a_renewal_passes_over_every_claim_that_was_lost(self) -> None:
        held, lost = self.claimed(lease=1000), self._lost()
        with shifted(LEASE + 1), self.untouched(*lost):
            assert self.store().renew([*lost, held]) == {held.digest}

    def test_hundreds_of_leases_are_renewed_together(self) -> None:
        claims = [self.claimed() for _ in range(300)]
        assert self.store().renew(claims) == {claim.digest for claim in claims}

    def _lost(self) -> list[Claim]:
        """One claim of each kind that its owner no longer holds."""
        completed, waiting = self.completed(), self.claimed()
        cancelled, taken, gone = self.cancelled(self.claimed()), self.claimed(), self.claimed()
        self.retry(waiting)
        with shifted(LEASE + 1):
            self.taken_over(taken.call)
        return [completed, waiting, cancelled, taken, replace(gone, call=self.call())]
