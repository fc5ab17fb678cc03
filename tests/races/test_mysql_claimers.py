"""Sixteen connections at one key of MariaDB or MySQL at the same moment: each time there is one winner."""

from __future__ import annotations

import pytest
from django.db import transaction

from django_idempotent_tasks.ledger.stores import LedgerStore
from django_idempotent_tasks.ledger.values import Call, Claimed, Grant, Outcome, Refused, Reserved, Waiting
from django_idempotent_tasks.testing.contract.bench import new_owner
from tests.races import test_atomic_claimers as atomic
from tests.races import test_many_claimers as leased
from tests.races.conftest import OpenSession
from tests.races.mysql import ALIAS, MysqlStage, mark
from tests.races.staging import LEASE, claim, reserve, run
from tests.support.ledger.session import Session, Work

pytestmark = mark

CLAIMERS = 16
#: Who inserts beside another one waits for a second there: fewer rounds than on PostgreSQL.
ROUNDS = 4


def at_once(call: Call) -> Work[Outcome]:
    """An atomic run whose transaction is committed as soon as it has the key."""

    def work(store: LedgerStore) -> Outcome:
        with transaction.atomic(using=ALIAS):
            return run(call)(store)

    return work


def reserve_at_once(call: Call) -> Work[object]:
    """A reservation in a transaction of its own, as a sender makes it."""

    def work(store: LedgerStore) -> object:
        with transaction.atomic(using=ALIAS):
            return reserve(call)(store)

    return work


@pytest.fixture
def claimers(open_session: OpenSession) -> list[Session]:
    sessions = [open_session(ALIAS) for _ in range(CLAIMERS)]
    for session in sessions:
        session.sql("SELECT 1")  # connected before the race begins
    return sessions


@pytest.fixture(autouse=True)
def _there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(atomic, "ROUNDS", ROUNDS)
    monkeypatch.setattr(atomic, "at_once", at_once)


class TestOneWinner(MysqlStage, leased.TestOneWinner):
    def test_of_a_reserved_key(self, claimers: list[Session]) -> None:
        for _ in range(ROUNDS):
            call = self.reserved()

            def start(store: LedgerStore, call: Call = call) -> Grant | None:
                return store.claim_reserved(call, owner=new_owner(), lease=LEASE)

            assert leased.tokens(leased.race(claimers, lambda _number: start)) == [1]


class TestTheLedger(MysqlStage):
    """Whoever does not win is told so, or comes back: never an error, never a second winner."""

    def test_claims_a_new_key_once(self, claimers: list[Session]) -> None:
        for _ in range(ROUNDS):
            self._one_claims(claimers, self.call())

    def test_takes_an_expired_lease_over_once(self, claimers: list[Session]) -> None:
        for _ in range(ROUNDS):
            self._one_claims(claimers, self.expired_key())

    def test_claims_a_finished_key_once(self, claimers: list[Session]) -> None:
        for _ in range(ROUNDS):
            self._one_claims(claimers, self.completed(self.claimed(self.call("old")), retention=0).call)

    def test_reserves_a_new_key_once(self, claimers: list[Session]) -> None:
        for _ in range(ROUNDS):
            self._one_reserves(claimers, self.call())

    def test_reserves_a_finished_key_once(self, claimers: list[Session]) -> None:
        for _ in range(ROUNDS):
            self._one_reserves(claimers, self.completed(self.claimed(self.call("old")), retention=0).call)

    def expired_key(self) -> Call:
        """A key whose owner has died."""
        key = self.claimed(self.call("0"))
        self.in_columns(key, open_at=self.row(key).created_at)
        return key.call

    def _one_claims(self, claimers: list[Session], key: Call) -> None:
        outcomes: list[Outcome] = leased.race(claimers, lambda number: claim(self.call(str(number), of=key)))
        (winner,) = (str(number) for number, outcome in enumerate(outcomes) if isinstance(outcome, Claimed))
        assert all(isinstance(outcome, Claimed | Refused | Waiting) for outcome in outcomes)
        row = self.row(key)
        assert winner in {row.task_id, row.runner_task_id}

    def _one_reserves(self, claimers: list[Session], key: Call) -> None:
        outcomes = leased.race(claimers, lambda number: reserve_at_once(self.call(str(number), of=key)))
        (winner,) = (str(number) for number, outcome in enumerate(outcomes) if isinstance(outcome, Reserved))
        assert all(isinstance(outcome, Reserved | Refused) for outcome in outcomes)
        assert self.row(key).task_id == winner


class TestAnOpenRun(MysqlStage, atomic.TestAnOpenRun):
    """Who inserts beside another one waits for a second, never for its end."""


class TestACommittedRun(MysqlStage, atomic.TestACommittedRun):
    """Commits fall between the statements of the others."""


class TestARecord(MysqlStage, atomic.TestARecord):
    """What a run that died has left is written once."""
