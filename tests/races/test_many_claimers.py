"""Sixteen connections claim one key at the same moment, again and again: each time there is one winner."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from django_idempotent_tasks.ledger.stores import LedgerStore
from django_idempotent_tasks.ledger.stores.clock import shifted
from django_idempotent_tasks.ledger.values import Call, Claimed, Grant, Outcome, Refused, Waiting
from django_idempotent_tasks.states import State
from tests.races.conftest import OpenSession
from tests.races.staging import LEASE, Stage, claim, claim_anew, insert, take_over
from tests.support.ledger.session import Session, T, Work
from tests.support.waiting import PATIENCE

pytestmark = [
    pytest.mark.postgresql,
    pytest.mark.django_db(transaction=True, available_apps=["django_idempotent_tasks"]),
]

CLAIMERS = 16
ROUNDS = 20


@pytest.fixture
def claimers(open_session: OpenSession) -> list[Session]:
    sessions = [open_session("default") for _ in range(CLAIMERS)]
    for session in sessions:
        session.sql("SELECT 1")  # connected before the race begins
    return sessions


def race(claimers: list[Session], work: Callable[[int], Work[T]]) -> list[T]:
    """What each claimer gets when all begin together."""
    together = threading.Barrier(len(claimers))

    def run(number: int, store: LedgerStore) -> T:
        together.wait(PATIENCE)
        return work(number)(store)

    futures = [
        session.start(lambda store, number=number: run(number, store))  # type: ignore[misc]
        for number, session in enumerate(claimers)
    ]
    return [future.result(PATIENCE) for future in futures]


def tokens(grants: list[Grant | None]) -> list[int]:
    """The tokens that were granted."""
    return [grant.token for grant in grants if grant is not None]


class TestOneWinner(Stage):
    def test_of_a_first_claim(self, claimers: list[Session]) -> None:
        for _ in range(ROUNDS):
            call = self.call()
            assert tokens(race(claimers, lambda _number: insert(call))) == [1]  # noqa: B023

    def test_of_a_takeover(self, claimers: list[Session]) -> None:
        call = self.claimed().call
        for turn in range(1, ROUNDS + 1):
            with shifted(turn * (LEASE + 1)):
                seen = self.seen(call)
                granted = tokens(race(claimers, lambda _number: take_over(call, seen)))  # noqa: B023
            assert granted == [turn + 1]

    def test_of_a_claim_of_a_finished_key(self, claimers: list[Session]) -> None:
        finished = self.completed(retention=0)
        for turn in range(1, ROUNDS + 1):
            calls = [self.call(f"{turn}-{n}", of=finished.call) for n in range(CLAIMERS)]
            seen = self.seen(calls[0])
            grants = race(claimers, lambda number: claim_anew(calls[number], seen))  # noqa: B023
            assert tokens(grants) == [turn + 1]
            winner = calls[next(number for number, grant in enumerate(grants) if grant)]
            self.in_columns(winner, state=State.SUCCEEDED, finished_at=self.now(winner))
            self.in_columns(winner, open_at=self.now(winner))


class TestTheLedger(Stage):
    """Whoever does not win is told who did: never an error, never a second winner."""

    def test_claims_a_new_key_once(self, claimers: list[Session]) -> None:
        for _ in range(ROUNDS):
            self._one_claims_and_the_others_hear_of_it(claimers, self.call())

    def test_takes_an_expired_lease_over_once(self, claimers: list[Session]) -> None:
        for turn in range(1, ROUNDS + 1):
            key = self.claimed(self.call("0")).call
            with shifted(turn * (LEASE + 1)):
                outcomes = race(claimers, lambda number: claim(self.call(str(number), of=key)))  # noqa: B023
            assert sum(isinstance(outcome, Claimed) for outcome in outcomes) == 1
            assert all(isinstance(outcome, Claimed | Refused | Waiting) for outcome in outcomes)

    def test_claims_a_finished_key_once(self, claimers: list[Session]) -> None:
        for _ in range(ROUNDS):
            key = self.completed(self.claimed(self.call("old")), retention=0).call
            self._one_claims_and_the_others_hear_of_it(claimers, key)

    def _one_claims_and_the_others_hear_of_it(self, claimers: list[Session], key: Call) -> None:
        outcomes: list[Outcome] = race(claimers, lambda number: claim(self.call(str(number), of=key)))
        (winner,) = (str(number) for number, outcome in enumerate(outcomes) if isinstance(outcome, Claimed))
        refused = [outcome for outcome in outcomes if not isinstance(outcome, Claimed)]
        for outcome in refused:
            assert isinstance(outcome, Refused)
            assert (outcome.holder, outcome.reason) == (winner, "in_progress")
