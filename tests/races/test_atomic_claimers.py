"""Sixteen connections begin an atomic run of one key: one does, and nobody waits for its end."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.db import transaction

from django_idempotent_tasks.ledger.atomic import AtomicLedger, Recorded
from django_idempotent_tasks.ledger.stores import LedgerStore
from django_idempotent_tasks.ledger.stores.clock import shifted
from django_idempotent_tasks.ledger.values import Answered, Call, Claim, Claimed, Outcome, Refused, Waiting
from django_idempotent_tasks.models import FailedJob
from django_idempotent_tasks.states import State
from django_idempotent_tasks.testing.contract.atomic_bench import AtomicBench
from tests.races.staging import ATOMIC, REPUBLISH, Stage, record, run
from tests.races.test_many_claimers import claimers, race
from tests.support.ledger.session import Session, Work

__all__ = ["claimers"]

pytestmark = [
    pytest.mark.postgresql,
    pytest.mark.django_db(transaction=True, available_apps=["django_idempotent_tasks"]),
]

ROUNDS = 8


class Runs(Stage, AtomicBench):
    """The keys that an atomic run may begin with, by the name of their state."""

    def new(self) -> Call:
        """It has no row."""
        return self.call("0")

    def pending(self) -> Call:
        """It was reserved."""
        return self.reserved(self.call("0"))

    def due(self) -> Call:
        """It is due to be tried again."""
        return self.retried(self.call("0")).call

    def dead(self) -> Call:
        """Its owner has died."""
        return self.died(self.claimed(self.call("0"))).call

    def finished(self) -> Call:
        """Another call has succeeded, and its retention is over."""
        return self.call("0", of=self.completed(self.claimed(self.call("old")), retention=0).call)


KINDS = pytest.mark.parametrize(
    "kind", [Runs.new, Runs.pending, Runs.due, Runs.dead, Runs.finished], ids=lambda kind: kind.__name__
)

Kind = Callable[[Runs], Call]


def begin(sessions: list[Session]) -> None:
    for session in sessions:
        session.begin()


def at_once(call: Call) -> Work[Outcome]:
    """A run whose transaction is committed as soon as it has the key."""

    def work(store: LedgerStore) -> Outcome:
        with transaction.atomic(using=store.connection.alias):
            return run(call)(store)

    return work


def winners_left_out(kind: Kind) -> set[int]:
    """A key that waits is its own call's: that one comes back when another has just looked at it."""
    return {0} if kind in {Runs.new, Runs.finished} else {0, 1}


def winner_of(outcomes: list[Outcome]) -> tuple[int, Claim]:
    """The only one that may run."""
    ((number, claim),) = (
        (number, outcome.claim) for number, outcome in enumerate(outcomes) if isinstance(outcome, Claimed)
    )
    return number, claim


class TestAnOpenRun(Runs):
    """All answers are in while every transaction is open: nobody can have waited for one to end."""

    @KINDS
    def test_has_the_key_alone_and_keeps_no_copy_waiting(self, claimers: list[Session], kind: Kind) -> None:
        for _ in range(ROUNDS):
            call = kind(self)
            with self.untouched(call):
                begin(claimers)
                outcomes = race(claimers, lambda _number: run(call))  # noqa: B023
            number, claim = winner_of(outcomes)
            assert all(isinstance(outcome, Waiting) for outcome in outcomes if outcome != outcomes[number])
            for session in claimers:
                session.commit()
            row = self.row(call)
            assert (row.state, row.owner) == (State.SUCCEEDED, claim.owner)

    @KINDS
    def test_has_the_key_alone_and_keeps_no_other_call_waiting(
        self, claimers: list[Session], kind: Kind
    ) -> None:
        for _ in range(ROUNDS):
            call = kind(self)
            calls = [self.call(str(number), of=call) for number in range(len(claimers))]
            with self.untouched(call):
                begin(claimers)
                outcomes = race(claimers, lambda number: run(calls[number]))  # noqa: B023
            losers = [outcome for outcome in outcomes if not isinstance(outcome, Claimed)]
            assert len(losers) - len(claimers) + 1 in winners_left_out(kind)
            assert all(isinstance(outcome, Waiting | Refused) for outcome in losers)
            for session in claimers:
                session.commit()
            if len(losers) < len(claimers):
                assert self.row(call).owner == winner_of(outcomes)[1].owner

    @KINDS
    def test_that_is_rolled_back_leaves_the_key_to_one_of_the_next(
        self, claimers: list[Session], kind: Kind
    ) -> None:
        call = kind(self)
        with self.untouched(call):
            for _ in range(ROUNDS):
                begin(claimers)
                winner_of(race(claimers, lambda _number: run(call)))
                for session in claimers:
                    session.rollback()
        winner_of(race(claimers, lambda _number: at_once(call)))


class TestACommittedRun(Runs):
    """Commits fall between the statements of the others."""

    @KINDS
    def test_is_the_only_one_of_its_copies(self, claimers: list[Session], kind: Kind) -> None:
        for _ in range(ROUNDS):
            call = kind(self)
            outcomes = race(claimers, lambda _number: at_once(call))  # noqa: B023
            number, claim = winner_of(outcomes)
            others = outcomes[:number] + outcomes[number + 1 :]
            assert all(isinstance(outcome, Waiting | Answered) for outcome in others)
            assert self.row(call).token == claim.token

    @KINDS
    def test_is_the_only_one_of_its_key(self, claimers: list[Session], kind: Kind) -> None:
        for _ in range(ROUNDS):
            call = kind(self)
            calls = [self.call(str(number), of=call) for number in range(len(claimers))]
            outcomes = race(claimers, lambda number: at_once(calls[number]))  # noqa: B023
            claims = [outcome.claim for outcome in outcomes if isinstance(outcome, Claimed)]
            assert 1 - len(claims) in winners_left_out(kind)
            state = self.seen(call).state
            assert state is State.SUCCEEDED if claims else State(state) in {State.PENDING, State.RETRY}


class TestARecord(Runs):
    """What a run that died has left is written once."""

    @KINDS
    def test_of_one_death_is_written_once(self, claimers: list[Session], kind: Kind) -> None:
        for _ in range(ROUNDS):
            call = kind(self)
            entry = self.store().read(call.identity.digest, task_id=call.task_id)
            token, crashes = (entry.token, entry.crashes) if entry else (0, 0)
            recorded = race(claimers, lambda _number: record(call, seen=token))  # noqa: B023
            assert recorded.count(Recorded.DONE) == 1
            anew = kind is Runs.finished
            assert (self.seen(call).state, self.seen(call).crashes) == (
                State.RETRY,
                1 if anew else crashes + 1,
            )

    def test_of_redelivered_starts_counts_one_at_a_time(self, claimers: list[Session]) -> None:
        call = self.new()
        for turn in range(1, ROUNDS + 1):
            with shifted(turn * REPUBLISH):
                entry = self.store().read(call.identity.digest, task_id=call.task_id)
                tokens = race(
                    claimers,
                    lambda _: lambda store: AtomicLedger(store, ATOMIC).count_start(call, entry),  # noqa: B023
                )
            counted = [token for token in tokens if token is not None]
            assert counted == [self.seen(call).token]
            assert self.seen(call).crashes == turn
            deaths = FailedJob.objects.using(self.store().connection.alias).filter(
                digest=call.identity.digest
            )
            assert deaths.count() == turn - 1, "each start that the next one follows has died"
