"""What only SQLite's store does: whole transactions of two statements, times as text, plans."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import datetime, timedelta

import pytest
from django.db import OperationalError, connections, transaction
from django.db.models import TextField
from django.db.models.functions import Cast

from django_idempotent_tasks.ledger.ledger import Ledger
from django_idempotent_tasks.ledger.rules import Step
from django_idempotent_tasks.ledger.stores import LedgerStore, get_store
from django_idempotent_tasks.ledger.stores.clock import shifted
from django_idempotent_tasks.ledger.stores.sqlite import FORMAT
from django_idempotent_tasks.ledger.values import Call
from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.states import State
from django_idempotent_tasks.testing.contract.bench import LEASE, REPUBLISH, WINDOW, Bench, new_owner
from tests.support.ledger.crowd import fill, read_from_end_to_end
from tests.support.ledger.policies import POLICY
from tests.support.ledger.statements import Work, sqlite_plan, verbs

pytestmark = pytest.mark.django_db(
    transaction=True, databases=["default", "sqlite"], available_apps=["django_idempotent_tasks"]
)

KEY = "django_idempotent_tasks_idempotencykey"


class Ledgers(Bench):
    has_row_locks = False

    def store(self) -> LedgerStore:
        return get_store("sqlite")


def claim_through_the_ledger(call: Call, *, first: Step = Step.INSERT) -> Work:
    return lambda store: Ledger(store, POLICY).claim(call, owner=new_owner(), first=first)


@contextmanager
def impatient(store: LedgerStore) -> Iterator[None]:
    """Inside, the store's connection does not wait for a lock."""
    with store.connection.cursor() as cursor:
        cursor.execute("PRAGMA busy_timeout = 0")
        yield
        cursor.execute("PRAGMA busy_timeout = 20000")


@contextmanager
def reader() -> Iterator[sqlite3.Connection]:
    """Another program that is in the middle of reading the table: nobody can commit meanwhile."""
    path = connections["sqlite"].settings_dict["NAME"]
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM django_idempotent_tasks_idempotencykey").fetchall()
        yield connection


class TestStatements(Ledgers):
    def test_a_first_claim_is_one_statement(self) -> None:
        assert verbs("sqlite", claim_through_the_ledger(self.call())) == ["INSERT"]

    def test_a_duplicate_is_an_insert_and_a_select(self) -> None:
        other = self.call("B", of=self.claimed().call)
        assert verbs("sqlite", claim_through_the_ledger(other)) == ["INSERT", "SELECT"]

    def test_a_redelivered_call_that_is_finished_is_one_select(self) -> None:
        call = self.completed().call
        assert verbs("sqlite", claim_through_the_ledger(call, first=Step.WAIT)) == ["SELECT"]

    def test_a_claim_of_a_finished_key_is_one_transaction_that_begins_as_a_writer(self) -> None:
        other = self.call("B", of=self.completed(retention=0).call)
        assert verbs("sqlite", claim_through_the_ledger(other)) == [
            "INSERT",
            "SELECT",
            "BEGIN",
            "INSERT",
            "DELETE",
            "UPDATE",
            "COMMIT",
        ]

    def test_a_failure_and_its_record_are_one_transaction(self) -> None:
        claim = self.claimed()
        words = ["BEGIN", "UPDATE", "INSERT", "COMMIT"]
        assert verbs("sqlite", lambda _: self.fail(claim)) == words

    def test_every_other_settlement_is_one_statement(self) -> None:
        claims = [self.claimed() for _ in range(4)]
        for verb in (
            lambda _: self.complete(claims[0]),
            lambda _: self.retry(claims[1]),
            lambda store: store.renew(claims),
            lambda store: store.cancel(claims[3].digest, window=WINDOW),
        ):
            assert len(verbs("sqlite", verb)) == 1

    def test_a_sweep_is_one_transaction_that_begins_as_a_writer(self) -> None:
        words = ["BEGIN", "INSERT", "UPDATE", "COMMIT"]
        assert verbs("sqlite", lambda store: store.sweep(bite=9, republish=REPUBLISH)) == words


class TestTransactions(Ledgers):
    def test_a_claim_of_a_finished_key_belongs_to_the_transaction_around_it(self) -> None:
        finished = self.completed(retention=0)
        other = self.call("B", of=finished.call)
        with self.untouched(finished), transaction.atomic(using="sqlite"):
            self.claimed_anew(other)
            assert self.seen(finished.call).was_answered is True
            transaction.set_rollback(True, using="sqlite")
        assert self.seen(finished.call).was_answered is False

    def test_a_commit_that_a_reader_holds_up_leaves_nothing_behind(self) -> None:
        finished = self.completed(retention=0)
        other = self.call("B", of=finished.call)
        with self.untouched(finished):
            with reader(), impatient(self.store()), pytest.raises(OperationalError, match="locked"):
                self.try_anew(other)
            assert self.store().connection.connection.in_transaction is False
        assert self.claimed_anew(other).token == 2

    def test_a_sum_of_duplicates_that_a_reader_holds_up_is_made_by_the_next(self) -> None:
        claim = self.claimed()
        self.store().record_duplicate(claim.call, place="worker", reason="in_progress")
        with reader(), impatient(self.store()), pytest.raises(OperationalError, match="locked"):
            self.store().sum_duplicates(bite=9)
        assert self.store().sum_duplicates(bite=9) == 1
        assert self.row(claim).duplicates == 1

    def test_a_side_connection_waits_two_seconds_for_a_lock(self) -> None:
        with self.store().side_connection() as side, side.connection.cursor() as cursor:
            cursor.execute("PRAGMA busy_timeout")
            assert cursor.fetchone() == (2000,)


class TestTimes(Ledgers):
    def test_a_time_that_django_wrote_is_judged_like_one_of_ours(self) -> None:
        claim = self.in_state(State.RETRY)
        for seconds, is_open in ((-2, True), (60, False)):
            moment = self.now(claim) + timedelta(seconds=seconds)
            for microsecond in (0, 1, 999_999):
                self.in_columns(claim, open_at=moment.replace(microsecond=microsecond))
                assert self.seen(claim.call).is_open is is_open

    def test_times_are_text_in_the_form_that_django_reads(self) -> None:
        claim = self.claimed()
        times = [Cast(name, TextField()) for name in ("open_at", "due_at", "created_at")]
        texts = IdempotencyKey.objects.using("sqlite").values_list(*times).get()
        row = self.row(claim)
        moments = (row.open_at, row.due_at, row.created_at)
        assert [moment and moment.strftime("%Y-%m-%d %H:%M:%S.%f") for moment in moments] == list(texts)


class TestPlans(Ledgers):
    """With some thousand rows, nothing hot reads a table from end to end."""

    @pytest.fixture(autouse=True)
    def _filled(self, transactional_db: None) -> None:  # noqa: ARG002  opened first
        fill("sqlite")

    def test_no_statement_of_a_task_scans_a_table(self) -> None:
        claims = [self.claimed() for _ in range(3)]
        finished = self.call("B", of=self.completed(retention=0).call)
        work: list[Work] = [
            claim_through_the_ledger(self.call("B", of=claims[0].call)),
            claim_through_the_ledger(finished),
            lambda _: self.complete(claims[0]),
            lambda _: self.retry(claims[1]),
            lambda _: self.fail(claims[2]),
            lambda store: store.renew(claims),
            lambda store: store.cancel(claims[0].digest, window=WINDOW),
            lambda store: store.answer(claims[1].digest, task_id="A"),
            lambda store: store.release(claims[1].digest, token=1),
            lambda store: Ledger(store, POLICY).reserve(self.call(), wait=REPUBLISH, sends=0),
            lambda store: Ledger(store, POLICY).reserve(finished, wait=REPUBLISH, sends=0),
            claim_through_the_ledger(self.call(), first=Step.RESERVED),
            lambda store: store.cancel_waiting(["A"], window=WINDOW),
            lambda store: store.expire(claims[1].digest, task_id="A", window=WINDOW),
            lambda store: store.prune(State.SUCCEEDED, bite=9),
            lambda store: store.prune_answered(bite=9),
            lambda store: store.prune_duplicates(keep=WINDOW, bite=9),
            lambda store: store.sum_duplicates(bite=9),
        ]
        for verb in work:
            assert _scans(sqlite_plan(verb)) == []

    def test_a_takeover_searches_by_the_primary_key(self) -> None:
        call = self.claimed().call
        with shifted(LEASE + 1):
            plan = sqlite_plan(claim_through_the_ledger(call))
        assert any("(digest=?)" in step for step in plan)
        assert _scans(plan) == []

    def test_a_sweep_searches_what_is_due_of_each_state_in_the_index(self) -> None:
        plan = sqlite_plan(lambda store: store.sweep(bite=20, republish=REPUBLISH))
        assert (
            sum("idem_key_state_due (state=? AND due_at<?)" in step for step in plan) == 4
        )  # and what is recorded
        assert _scans(plan) == []

    def test_the_reader_of_plans_sees_a_scan(self) -> None:
        assert _scans(sqlite_plan(lambda _: read_from_end_to_end("sqlite"))) == [f"SCAN {KEY}"]


def _scans(plan: list[str]) -> list[str]:
    return [
        step for step in plan if step.startswith((f"SCAN {KEY}", "SCAN django_idempotent_tasks", "SCAN k"))
    ]


@pytest.mark.parametrize("fraction", ["000", "001", "120", "999"])
def test_a_time_that_django_reads_and_writes_again_is_the_same_text(fraction: str) -> None:
    """Else what is past a row's own time may be the row itself, and paging never ends."""
    connection = connections["sqlite"]
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT strftime({FORMAT}, %s)", [f"2026-03-01 14:05:00.{fraction}"])
        (text,) = cursor.fetchone()
    assert str(datetime.fromisoformat(text)) == text
