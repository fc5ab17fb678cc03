"""What only PostgreSQL's store does: how many statements, by which plans, at which time."""

from __future__ import annotations

from contextlib import nullcontext
from uuid import UUID

import pytest
from django.db import connection, transaction

from django_idempotent_tasks.ledger.ledger import Ledger
from django_idempotent_tasks.ledger.rules import Step
from django_idempotent_tasks.ledger.stores import LedgerStore, get_store
from django_idempotent_tasks.ledger.stores.clock import shifted
from django_idempotent_tasks.ledger.stores.postgresql import PostgresStore
from django_idempotent_tasks.ledger.values import Call, Claimed, Refused
from django_idempotent_tasks.states import Reason, State
from django_idempotent_tasks.testing.contract.bench import (
    LEASE,
    REPUBLISH,
    RETENTION,
    WINDOW,
    Bench,
    a_failure,
    new_owner,
)
from tests.support.ledger.crowd import fill, read_from_end_to_end
from tests.support.ledger.policies import POLICY
from tests.support.ledger.statements import Work, postgresql_plan, said, verbs

pytestmark = [
    pytest.mark.postgresql,
    pytest.mark.django_db(transaction=True, available_apps=["django_idempotent_tasks"]),
]

KEY = "django_idempotent_tasks_idempotencykey"


class Ledgers(Bench):
    def store(self) -> LedgerStore:
        return get_store("default")


def claim_through_the_ledger(call: Call, *, first: Step = Step.INSERT) -> Work:
    return lambda store: Ledger(store, POLICY).claim(call, owner=new_owner(), first=first)


def reserve_through_the_ledger(call: Call) -> Work:
    return lambda store: Ledger(store, POLICY).reserve(call, wait=REPUBLISH, sends=0)


def from_outside(digest: UUID) -> list[Work]:
    """The verbs of senders, revokes and prunes on a key of the call A."""
    return [
        lambda store: store.cancel_waiting(["A", "B"], window=WINDOW),
        lambda store: store.expire(digest, task_id="A", window=WINDOW),
        lambda store: store.prune(State.SUCCEEDED, bite=9),
        lambda store: store.prune_answered(bite=9),
        lambda store: store.prune_duplicates(keep=WINDOW, bite=9),
        lambda store: store.redrive(digest, token=1, message="{}"),
        lambda store: store.discard(digest, token=1, retention=RETENTION),
        lambda store: store.resolve(
            digest, token=1, result="1", reason=Reason.DONE, retention=RETENTION, window=WINDOW
        ),
    ]


def fails_unknown(digest: UUID) -> Work:
    """The verb of a worker that does not know the task."""
    return lambda store: store.fail_unknown(
        digest, task_id="A", sends=1, failure=a_failure(), retention=RETENTION
    )


class TestStatements(Ledgers):
    def test_a_first_claim_is_one_statement(self) -> None:
        assert verbs("default", claim_through_the_ledger(self.call())) == ["INSERT"]

    def test_a_duplicate_is_an_insert_and_a_select(self) -> None:
        other = self.call("B", of=self.claimed().call)
        assert verbs("default", claim_through_the_ledger(other)) == ["INSERT", "SELECT"]

    def test_a_redelivered_call_that_is_finished_is_one_select(self) -> None:
        call = self.completed().call
        assert verbs("default", claim_through_the_ledger(call, first=Step.WAIT)) == ["SELECT"]

    def test_a_takeover_is_one_transaction_with_the_record_of_what_it_ends(self) -> None:
        call = self.claimed().call
        words = ["INSERT", "SELECT", "BEGIN", "UPDATE", "INSERT", "COMMIT"]
        with shifted(LEASE + 1):
            assert verbs("default", claim_through_the_ledger(call)) == words

    def test_a_claim_of_a_due_retry_is_an_insert_a_select_and_an_update(self) -> None:
        claim = self.claimed()
        self.retry(claim)
        assert verbs("default", claim_through_the_ledger(claim.call)) == ["INSERT", "SELECT", "UPDATE"]

    def test_a_claim_of_a_finished_key_remembers_the_old_call_in_the_same_statement(self) -> None:
        other = self.call("B", of=self.completed(retention=0).call)
        assert verbs("default", claim_through_the_ledger(other)) == ["INSERT", "SELECT", "WITH"]

    def test_a_reservation_is_one_statement_and_so_is_the_claim_of_it(self) -> None:
        call = self.call()
        assert verbs("default", reserve_through_the_ledger(call)) == ["WITH"]
        assert verbs("default", claim_through_the_ledger(call, first=Step.RESERVED)) == ["UPDATE"]

    def test_a_refused_reservation_is_two_statements(self) -> None:
        other = self.call("B", of=self.claimed().call)
        assert verbs("default", reserve_through_the_ledger(other)) == ["WITH", "SELECT"]

    def test_a_reservation_of_a_finished_key_is_three_statements(self) -> None:
        other = self.call("B", of=self.completed(retention=0).call)
        assert verbs("default", reserve_through_the_ledger(other)) == ["WITH", "SELECT", "WITH"]

    def test_a_refused_reservation_holds_no_lock(self) -> None:
        other = self.call("B", of=self.claimed().call)
        with transaction.atomic():
            reserve_through_the_ledger(other)(self.store())
            with connection.cursor() as cursor:
                cursor.execute(
                    "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"
                )
                assert cursor.fetchone() == (0,)

    def test_each_other_verb_is_one_statement(self) -> None:
        claims = [self.claimed() for _ in range(6)]
        work: list[Work] = [
            lambda store: store.keep_step(claims[0], "plan", value="1", elapsed=1.0),
            lambda store: store.step_values(claims[0]),
            lambda _: self.complete(claims[0]),
            lambda _: self.retry(claims[1]),
            lambda store: store.renew(claims),
            lambda store: store.cancel(claims[3].digest, window=WINDOW),
            lambda store: store.send_failed(claims[1].digest, token=1),
            lambda store: store.sweep(bite=9, republish=REPUBLISH),
            lambda store: store.record_duplicate(claims[4].call, place="worker", reason="in_progress"),
            lambda store: store.sum_duplicates(bite=9),
            lambda store: store.lead("sweeper", holder="one", lease=LEASE),
            lambda store: store.resign("sweeper", holder="one"),
            lambda store: store.release(claims[5].digest, token=1),
            lambda store: store.prune_failed(keep=WINDOW, bite=9),
            *from_outside(claims[5].digest),
        ]
        assert [len(said("default", verb)) for verb in work] == [1] * len(work)

    def test_a_failure_and_its_record_are_one_transaction(self) -> None:
        claim = self.claimed()
        words = [statement.split()[0] for statement in said("default", lambda _: self.fail(claim))]
        assert words == ["BEGIN", "UPDATE", "INSERT", "COMMIT"]


class TestTimes(Ledgers):
    def test_a_claim_in_a_transaction_is_dated_by_its_statement(self) -> None:
        with transaction.atomic():
            claim = self.claimed()
            with connection.cursor() as cursor:
                cursor.execute("SELECT now(), statement_timestamp()")
                began, last = cursor.fetchone()
        started = self.row(claim).started_at
        assert started is not None
        assert began < started < last

    def test_a_lease_that_ends_within_a_transaction_is_seen_to_end(self) -> None:
        claim = self.claimed()
        with transaction.atomic():
            assert self.seen(claim.call).is_open is False
            self.in_columns(claim, open_at=self.now(claim))
            assert self.seen(claim.call).is_open is True


class TestRecordsOfDuplicates(Ledgers):
    """They need not survive a power cut; what the caller commits has to."""

    @pytest.mark.parametrize("in_transaction", [True, False])
    def test_leave_the_callers_commits_as_durable_as_they_were(self, *, in_transaction: bool) -> None:
        call = self.claimed().call
        with connection.cursor() as cursor:
            cursor.execute("SET synchronous_commit = on")
        with transaction.atomic() if in_transaction else nullcontext():
            self.store().record_duplicate(call, place="worker", reason="in_progress")
            assert _shown(self.store(), "synchronous_commit") == "on"


class TestSideConnections(Ledgers):
    def test_a_side_connection_gives_up_after_two_seconds_and_says_who_it_is(self) -> None:
        with self.store().side_connection() as side:
            settings = [
                _shown(side, name) for name in ("statement_timeout", "lock_timeout", "application_name")
            ]
        assert settings == ["2s", "2s", "idempotent-tasks"]
        assert _shown(self.store(), "statement_timeout") == "0"

    def test_a_side_connection_keeps_the_projects_options_but_no_pool(self) -> None:
        copied = connection.copy()
        copied.settings_dict["OPTIONS"] |= {"pool": True, "options": "-c search_path=tenant"}
        PostgresStore(connection).shorten_timeouts(copied)
        options = copied.settings_dict["OPTIONS"]
        assert options["options"] == "-c search_path=tenant"
        assert "pool" not in options
        assert connection.settings_dict["OPTIONS"].get("options") is None


def _shown(store: LedgerStore, name: str) -> str:
    with store.connection.cursor() as cursor:
        cursor.execute(f"SHOW {name}")
        value: str = cursor.fetchone()[0]
    return value


class TestPlans(Ledgers):
    """With some thousand rows and the planner left alone, nothing hot reads a table from end to end."""

    @pytest.fixture(autouse=True)
    def _filled(self, transactional_db: None) -> None:  # noqa: ARG002  opened first
        fill("default")

    def test_no_statement_of_a_task_reads_a_table_sequentially(self) -> None:
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
            lambda store: store.send_failed(claims[1].digest, token=1),
            lambda store: store.answer(claims[1].digest, task_id="A"),
            lambda store: store.release(claims[1].digest, token=1),
            reserve_through_the_ledger(self.call()),
            reserve_through_the_ledger(finished),
            claim_through_the_ledger(self.call(), first=Step.RESERVED),
        ]
        for verb in work:
            nodes = {access.node for access in postgresql_plan(verb)}
            assert nodes <= {"Index Scan", "Index Only Scan"}, said("default", verb)

    def test_a_takeover_reads_by_the_primary_key(self) -> None:
        call = self.claimed().call
        with shifted(LEASE + 1):
            plan = postgresql_plan(claim_through_the_ledger(call))
        assert {access.index for access in plan if access.table == KEY} == {f"{KEY}_pkey"}

    def test_a_sweep_reads_what_is_due_of_each_state_from_the_index(self) -> None:
        plan = postgresql_plan(lambda store: store.sweep(bite=20, republish=REPUBLISH))
        assert {access.node for access in plan} <= {"Index Scan", "Index Only Scan"}
        ranges = [access.condition for access in plan if access.index == "idem_key_state_due"]
        assert len(ranges) == 3
        assert all("state = " in condition and "due_at <= " in condition for condition in ranges)

    def test_no_verb_from_outside_reads_a_table_sequentially(self) -> None:
        digest = self.claimed().digest
        for verb in (*from_outside(digest), fails_unknown(digest)):
            nodes = {access.node for access in postgresql_plan(verb)}
            assert "Seq Scan" not in nodes, said("default", verb)

    def test_a_revoke_reads_by_the_task_id(self) -> None:
        plan = postgresql_plan(lambda store: store.cancel_waiting(["T7"], window=WINDOW))
        assert "idem_key_task_id" in {access.index for access in plan}

    def test_a_prune_reads_what_is_past_its_time_from_the_index(self) -> None:
        plan = postgresql_plan(lambda store: store.prune(State.SUCCEEDED, bite=9))
        (access,) = (access for access in plan if access.index == "idem_key_state_due")
        assert "state = " in access.condition
        assert "due_at <= " in access.condition

    def test_a_sum_of_duplicates_reads_only_those_that_were_not_summed(self) -> None:
        self.store().record_duplicate(self.claimed().call, place="worker", reason="in_progress")
        plan = postgresql_plan(lambda store: store.sum_duplicates(bite=20))
        assert {access.node for access in plan} <= {"Index Scan", "Index Only Scan"}
        assert "idem_duplicate_summed" in {access.index for access in plan}

    def test_the_reader_of_plans_sees_a_sequential_scan(self) -> None:
        plan = postgresql_plan(lambda _: read_from_end_to_end("default"))
        assert [access.node for access in plan] == ["Seq Scan"]


def test_the_ledger_names_the_holder_of_a_key_to_every_duplicate() -> None:
    bench = Ledgers()
    call = bench.call()
    outcomes = [
        claim_through_the_ledger(bench.call(task_id, of=call))(bench.store()) for task_id in ("A", "B", "C")
    ]
    assert isinstance(outcomes[0], Claimed)
    for outcome in outcomes[1:]:
        assert isinstance(outcome, Refused)
        assert (outcome.holder, outcome.answer.state) == ("A", State.RUNNING)
