"""What only PostgreSQL's store does: how many statements, by which plans, at which time."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
from django.db import connection, transaction

from django_idempotent_tasks.ledger.rules import Step
from django_idempotent_tasks.ledger.stores import LedgerStore
from django_idempotent_tasks.ledger.stores.clock import shifted
from django_idempotent_tasks.ledger.stores.postgresql import PostgresStore
from django_idempotent_tasks.ledger.values import Claimed, Refused
from django_idempotent_tasks.states import State
from django_idempotent_tasks.testing.contract.bench import (
    LEASE,
    REPUBLISH,
    WINDOW,
)
from tests.ledger.stores.verbs import (
    Ledgers,
    claim_through_the_ledger,
    from_outside,
    reserve_through_the_ledger,
    revoke,
)
from tests.support.ledger.statements import Work, said, verbs

pytestmark = [
    pytest.mark.postgresql,
    pytest.mark.django_db(transaction=True, available_apps=["django_idempotent_tasks"]),
]


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
            *from_outside(claims[5].digest)[1:],
        ]
        assert [len(said("default", verb)) for verb in work] == [1] * len(work)

    def test_a_revoke_is_one_statement_on_keys_and_one_on_follow_ups(self) -> None:
        assert verbs("default", revoke) == ["UPDATE", "SELECT"]

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


class TestUnflushed(Ledgers):
    @pytest.mark.parametrize("way", ["atomic", "BEGIN", "autocommit"])
    def test_audit_rows_and_claims_leave_the_callers_commits_as_durable_as_they_were(self, way: str) -> None:
        store = self.store()
        with connection.cursor() as cursor:
            cursor.execute("SET synchronous_commit = on")
            with transaction.atomic() if way == "atomic" else nullcontext():
                cursor.execute("BEGIN" if way == "BEGIN" else "SELECT 1")
                store.record_duplicate(self.claimed().call, place="worker", reason="in_progress")
                assert store.claim_new(self.call(), owner="w:1:a", lease=LEASE, durable=False)
                assert store.claim_reserved(self.reserved(), owner="w:1:b", lease=LEASE, durable=False)
                assert _shown(store, "synchronous_commit") == "on"
            cursor.execute("COMMIT" if way == "BEGIN" else "SELECT 1")


class TestSideConnections(Ledgers):
    def test_a_side_connection_gives_up_after_two_seconds_and_says_who_it_is(self) -> None:
        with self.store().side_connection() as side:
            settings = [
                _shown(side, name) for name in ("statement_timeout", "lock_timeout", "application_name")
            ]
        assert settings == ["2s", "2s", "idempotent-tasks"]
        assert _shown(self.store(), "statement_timeout") == "0"

    def test_a_side_connection_keeps_the_projects_options_but_no_pool_and_no_plans(self) -> None:
        copied = connection.copy()
        copied.settings_dict["OPTIONS"] |= {
            "pool": True,
            "prepare_threshold": 5,
            "options": "-c search_path=tenant",
        }
        PostgresStore(connection).shorten_timeouts(copied)
        options = copied.settings_dict["OPTIONS"]
        assert options["options"] == "-c search_path=tenant"
        assert not {"pool", "prepare_threshold"} & set(options)
        assert connection.settings_dict["OPTIONS"].get("options") is None


def _shown(store: LedgerStore, name: str) -> str:
    with store.connection.cursor() as cursor:
        cursor.execute(f"SHOW {name}")
        value: str = cursor.fetchone()[0]
    return value


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
