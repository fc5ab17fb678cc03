"""What an atomic run says to its database: how many statements, and by which plans."""

from __future__ import annotations

import pytest
from django.db import connection, transaction

from django_idempotent_tasks.ledger.atomic import AtomicLedger
from django_idempotent_tasks.ledger.rules import Step
from django_idempotent_tasks.ledger.stores import LedgerStore, get_store
from django_idempotent_tasks.ledger.values import Call, Claimed
from django_idempotent_tasks.states import Reason
from django_idempotent_tasks.testing.contract.atomic_bench import AtomicBench
from django_idempotent_tasks.testing.contract.bench import REPUBLISH, new_owner
from tests.support.ledger.crowd import fill
from tests.support.ledger.policies import POLICY
from tests.support.ledger.statements import Access, Work, postgresql_plan, said, sqlite_plan, verbs

pytestmark = pytest.mark.django_db(
    transaction=True, databases=["default", "sqlite"], available_apps=["django_idempotent_tasks"]
)

KEY = "django_idempotent_tasks_idempotencykey"

ALIASES = pytest.mark.parametrize(
    "runs", ["default", "sqlite"], indirect=True, ids=["on PostgreSQL", "on SQLite"]
)


class Runs(AtomicBench):
    def __init__(self, alias: str) -> None:
        self._alias = alias

    def store(self) -> LedgerStore:
        return get_store(self._alias)

    def verbs(self, work: Work) -> list[str]:
        """The statements of ``work`` inside a transaction that is open already."""
        with self.atomically():
            return verbs(self._alias, work)


@pytest.fixture
def runs(request: pytest.FixtureRequest) -> Runs:
    return Runs(request.param)


def run(call: Call, value: object = None, *, first: Step = Step.INSERT) -> Work:
    """An atomic run through the ledger whose body returns ``value``."""

    def work(store: LedgerStore) -> None:
        ledger = AtomicLedger(store, POLICY)
        outcome = ledger.claim(call, owner=new_owner(), first=first)
        assert isinstance(outcome, Claimed)
        ledger.complete_inside(outcome.claim, value, Reason.DONE)

    return work


def record(call: Call) -> Work:
    """The record of a run that left nothing."""

    def work(store: LedgerStore) -> None:
        AtomicLedger(store, POLICY).record(
            call,
            owner=new_owner(),
            seen=0,
            settle=lambda claim: store.free_dead(claim.digest, owner_prefix=claim.owner, republish=REPUBLISH),
        )

    return work


@ALIASES
class TestStatements:
    def test_a_first_run_is_one_statement_and_with_a_result_two(self, runs: Runs) -> None:
        assert runs.verbs(run(runs.call())) == ["INSERT"]
        assert runs.verbs(run(runs.call(), [5])) == ["INSERT", "UPDATE"]

    def test_a_run_of_a_reservation_is_one_statement_and_with_a_result_two(self, runs: Runs) -> None:
        assert runs.verbs(run(runs.reserved(), first=Step.RESERVED)) == ["UPDATE"]
        assert runs.verbs(run(runs.reserved(), [5], first=Step.RESERVED)) == ["UPDATE", "UPDATE"]

    def test_a_run_of_a_redelivered_copy_reads_first(self, runs: Runs) -> None:
        assert runs.verbs(run(runs.retried().call, first=Step.WAIT)) == ["SELECT", "UPDATE"]

    def test_a_run_after_a_death_says_that_it_is_done(self, runs: Runs) -> None:
        assert runs.verbs(run(runs.died().call, first=Step.WAIT)) == ["SELECT", "UPDATE", "UPDATE"]

    def test_whether_the_transaction_can_be_committed_costs_no_statement(self, runs: Runs) -> None:
        def look(store: LedgerStore) -> None:
            assert store.transaction_problem() is None

        with runs.atomically():
            runs.try_atomic(runs.call())
            assert verbs(runs.alias, look) == []


@pytest.mark.postgresql
def test_a_record_is_one_short_transaction_that_locks_reads_claims_and_ends() -> None:
    runs = Runs("default")
    said_so = verbs("default", record(runs.reserved()))
    assert said_so == ["BEGIN", "SELECT", "SELECT", "UPDATE", "UPDATE", "COMMIT"]


@pytest.mark.postgresql
def test_a_run_locks_its_key_and_nothing_else() -> None:
    runs = Runs("default")
    call = runs.reserved()
    with transaction.atomic():
        run(call, first=Step.RESERVED)(runs.store())
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"
            )
            assert cursor.fetchone() == (1,)


def works(runs: Runs) -> list[Work]:
    """Every kind of atomic claim, with a result."""
    return [
        run(runs.call(), [5]),
        run(runs.reserved(), [5], first=Step.RESERVED),
        run(runs.retried().call, [5]),
        run(runs.call("B", of=runs.run(retention=0).call), [5]),
    ]


@pytest.mark.postgresql
def test_on_postgresql_no_claim_of_a_run_reads_a_table_from_end_to_end() -> None:
    fill("default")
    runs = Runs("default")
    for work in works(runs):
        plan: list[Access] = postgresql_plan(work)
        assert {access.node for access in plan} <= {"Index Scan", "Index Only Scan"}, said("default", work)
        indexes = {access.index for access in plan if access.table == KEY}
        assert indexes <= {f"{KEY}_pkey", "idem_key_task_id"}


def test_on_sqlite_no_claim_of_a_run_reads_a_table_from_end_to_end() -> None:
    fill("sqlite")
    runs = Runs("sqlite")
    for work in works(runs):
        plan = sqlite_plan(work)
        scans = [step for step in plan if step.startswith("SCAN") and "idempotent" in step]
        assert plan
        assert not scans, plan
