"""Several connections on one SQLite file: one writer at a time, and nobody hears that it is locked."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import closing, contextmanager

import pytest
from django.db import OperationalError, connections, transaction
from django.test import override_settings

from django_idempotent_tasks.ledger.stores import LedgerStore, get_store
from django_idempotent_tasks.ledger.stores.clock import shifted
from django_idempotent_tasks.ledger.values import Claimed, Outcome, Refused
from django_idempotent_tasks.running.heartbeat import Heart, _Held
from django_idempotent_tasks.states import Reason
from django_idempotent_tasks.testing.contract.bench import LEASE, RETENTION, WINDOW, Bench
from tests.races.conftest import OpenSession
from tests.races.staging import claim, claim_anew, insert
from tests.support.ledger.session import Session, T
from tests.support.waiting import PATIENCE, eventually

pytestmark = pytest.mark.django_db(
    transaction=True, databases=["default", "sqlite"], available_apps=["django_idempotent_tasks"]
)

ROUNDS = 100

#: Long enough to see that something has to wait.
MOMENT = 0.2

SHELL = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def one(open_session: OpenSession) -> Session:
    return open_session("sqlite")


@pytest.fixture
def two(open_session: OpenSession) -> Session:
    return open_session("sqlite")


class Ledgers(Bench):
    has_row_locks = False

    def store(self) -> LedgerStore:
        return get_store("sqlite")


def is_waiting(future: Future[T]) -> bool:
    """Whether it is still not done after a moment."""
    try:
        future.exception(MOMENT)
    except TimeoutError:
        return True
    return False


def is_being_written() -> bool:
    """Whether somebody writes to the file, who may wait for its readers to commit."""
    path = connections["sqlite"].settings_dict["NAME"]
    with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as third:
        try:
            third.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return True
        third.execute("ROLLBACK")
        return False


class TestTwoConnections(Ledgers):
    @pytest.mark.parametrize("commits", [True, False])
    def test_a_claim_waits_for_an_uncommitted_one_and_then_sees_how_it_ended(
        self, one: Session, two: Session, *, commits: bool
    ) -> None:
        call = self.call()
        one.begin()
        one.do(insert(call))
        late: Future[Outcome] = two.start(claim(self.call("B", of=call)))
        assert is_waiting(late)
        one.commit() if commits else one.rollback()
        assert isinstance(late.result(PATIENCE), Refused if commits else Claimed)

    def test_a_claim_of_a_finished_key_waits_for_another_and_loses(self, one: Session, two: Session) -> None:
        finished = self.completed(retention=0)
        first, second = self.call("B", of=finished.call), self.call("C", of=finished.call)
        seen = self.seen(first)
        one.begin()
        assert one.do(claim_anew(first, seen)) is not None
        late = two.start(claim_anew(second, seen))
        assert is_waiting(late)
        one.commit()
        assert late.result(PATIENCE) is None

    def test_a_completion_and_a_takeover_exclude_each_other(self, one: Session, two: Session) -> None:
        held = self.claimed()
        with shifted(LEASE + 1):
            seen = self.seen(held.call)
            one.begin()
            assert one.do(lambda store: store.claim_open(held.call, owner="w:2:b", lease=LEASE, seen=seen))
            completed = two.start(
                lambda store: store.complete(
                    held, result=None, reason=Reason.DONE, retention=RETENTION, window=WINDOW
                )
            )
            assert is_waiting(completed)
            one.commit()
            assert completed.result(PATIENCE) is False

    def test_of_twenty_threads_one_claims_the_key(self, open_session: OpenSession) -> None:
        call = self.call()
        sessions = [open_session("sqlite") for _ in range(20)]
        together = threading.Barrier(len(sessions))

        def run(store: LedgerStore, number: int) -> Outcome:
            store.read(call.identity.digest, task_id="A")
            together.wait(PATIENCE)
            return claim(self.call(str(number), of=call))(store)

        futures = [
            session.start(lambda store, number=number: run(store, number))  # type: ignore[misc]
            for number, session in enumerate(sessions)
        ]
        outcomes = [future.result(PATIENCE) for future in futures]
        (winner,) = (number for number, outcome in enumerate(outcomes) if isinstance(outcome, Claimed))
        for outcome in outcomes:
            assert isinstance(outcome, Claimed) or (
                isinstance(outcome, Refused) and outcome.holder == str(winner)
            )


class TestReadingBeforeWriting(Ledgers):
    """A transaction that has read cannot become a writer once somebody else has written."""

    def test_in_a_deferred_transaction_a_claim_fails_at_once(self, one: Session, two: Session) -> None:
        """This is why the checks ask for transactions that begin as writers; patience does not help."""
        one.sql("SELECT 1")  # connected, since that sets the mode anew
        one.do(lambda _: setattr(connections["sqlite"], "transaction_mode", "DEFERRED"))
        one.begin()
        call = self.call()
        one.do(lambda store: store.read(call.identity.digest, task_id="A"))
        other = two.start(insert(self.call()))
        eventually(is_being_written, "the other one writes")
        assert is_waiting(other), "nobody can commit while it reads"
        began = time.monotonic()
        with pytest.raises(OperationalError, match="locked"):
            one.do(insert(call))
        assert time.monotonic() - began < connections["sqlite"].settings_dict["OPTIONS"]["timeout"] / 2
        one.rollback()
        assert other.result(PATIENCE) is not None

    def test_outside_a_transaction_a_claim_only_waits(self, one: Session, two: Session) -> None:
        call = self.call()
        one.do(lambda store: store.read(call.identity.digest, task_id="A"))
        two.begin()
        two.do(insert(self.call()))
        late = one.start(insert(call))
        assert is_waiting(late)
        two.commit()
        assert late.result(PATIENCE) is not None

    def test_in_transactions_that_begin_as_writers_nobody_is_locked_out(
        self, one: Session, two: Session
    ) -> None:
        key = self.claimed().call

        def read_and_write(store: LedgerStore) -> int:
            for _ in range(ROUNDS):
                with transaction.atomic(using="sqlite"):
                    assert store.read(key.identity.digest, task_id="A") is not None
                    assert insert(self.call())(store) is not None
            return ROUNDS

        both = [session.start(read_and_write) for session in (one, two)]
        assert [future.result(PATIENCE) for future in both] == [ROUNDS, ROUNDS]


class TestAHeartbeat(Ledgers):
    """Another program has locked the file when a beat is due."""

    def test_that_finds_the_file_locked_loses_nothing_and_beats_again(self) -> None:
        held, lost = self._held()
        with self._ours(), self._locked_by_a_shell():
            Heart()._beat([held])
        assert not lost.is_set()
        with self._ours(), shifted(LEASE - 10), self.sets(held.claim, open_at=LEASE, due_at=LEASE):
            Heart()._beat([held])
        assert not lost.is_set()
        assert self.complete(held.claim) is True

    def test_that_finds_the_file_locked_for_a_whole_lease_doubts_the_lease_until_it_is_renewed(self) -> None:
        held, lost = self._held(renewed=-LEASE)
        with self._ours():
            with self._locked_by_a_shell():
                Heart()._beat([held])
            assert (self.doubts, lost.is_set()) == ([True], False)
            Heart()._beat([held])
        assert (self.doubts, lost.is_set()) == ([True, False], False)

    def _held(self, *, renewed: int = 0) -> tuple[_Held, threading.Event]:
        lost, now = threading.Event(), time.monotonic()
        self.doubts: list[bool] = []
        return _Held(self.claimed(), lost.set, self.doubts.append, renewed=now + renewed, tried=now), lost

    @staticmethod
    def _ours() -> override_settings:
        return override_settings(IDEMPOTENT_TASKS={"DATABASE": "sqlite"})

    @staticmethod
    @contextmanager
    def _locked_by_a_shell() -> Iterator[None]:
        path = str(connections["sqlite"].settings_dict["NAME"])
        with subprocess.Popen(
            [sys.executable, "-c", SHELL, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as shell:
            assert shell.stdout is not None
            assert shell.stdout.readline() == b"locked\n"
            yield
            shell.communicate(b"\n", timeout=PATIENCE)
