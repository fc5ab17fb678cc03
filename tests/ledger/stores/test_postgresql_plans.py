"""PostgreSQL reads few rows for each statement of the ledger, whatever its statistics say."""

from __future__ import annotations

import pytest
from django.db import connection

from django_idempotent_tasks.ledger.rules import Step
from django_idempotent_tasks.ledger.stores.clock import shifted
from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.states import State
from django_idempotent_tasks.testing.contract.bench import (
    LEASE,
    REPUBLISH,
    RETENTION,
    WINDOW,
)
from tests.ledger.stores.verbs import (
    KEY,
    Ledgers,
    claim_through_the_ledger,
    fails_unknown,
    from_outside,
    reserve_through_the_ledger,
)
from tests.support.ledger.crowd import fill, read_from_end_to_end
from tests.support.ledger.statements import Work, postgresql_plan, said

pytestmark = [
    pytest.mark.postgresql,
    pytest.mark.django_db(transaction=True, available_apps=["django_idempotent_tasks"]),
]


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

    def test_no_change_of_one_key_reads_all_keys_of_its_state(self) -> None:
        """Among millions of completed keys the statistics know of no other: a state seems to be one row."""
        IdempotencyKey.objects.exclude(state=State.SUCCEEDED).delete()
        with connection.cursor() as cursor:
            cursor.execute(f"ANALYZE {KEY}")
        claims = [self.claimed() for _ in range(3)]
        reserved = self.reserved()
        work: list[Work] = [
            lambda _: self.complete(claims[0]),
            lambda _: self.retry(claims[0]),
            lambda _: self.fail(claims[0]),
            lambda store: store.progress(claims[0], text="{}"),
            lambda store: store.renew(claims),
            lambda store: store.claim_reserved(reserved, owner="w:1:a", lease=LEASE),
            lambda store: store.cancel(claims[1].digest, window=WINDOW),
            lambda store: store.send_failed(claims[1].digest, token=1),
            lambda store: store.hasten(claims[1].digest, token=1),
            lambda store: store.release(claims[1].digest, token=1),
            lambda store: store.keep_step(claims[0], "plan", value="1", elapsed=1.0),
            lambda store: store.step_values(claims[0]),
            lambda store: store.follow(self.call("B", of=claims[0].call), wait=LEASE),
            lambda store: store.sent([claims[0].digest], token=0, retention=RETENTION),
            *from_outside(claims[1].digest)[1:2],
            *from_outside(claims[1].digest)[5:],
            fails_unknown(claims[1].digest),
        ]
        for verb in work:
            indexes = {access.index for access in postgresql_plan(verb, freely=True) if access.table == KEY}
            assert indexes <= {f"{KEY}_pkey", "idem_key_task_id"}, said("default", verb)

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
