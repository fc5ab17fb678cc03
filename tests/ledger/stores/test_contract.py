"""Both stores keep the whole contract, PostgreSQL's also with statements that the server keeps prepared."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import connection
from django.db.backends.postgresql.base import ServerBindingCursor

from django_idempotent_tasks.ledger.stores import LedgerStore, get_store, prepared
from django_idempotent_tasks.testing.contract import StoreContract
from django_idempotent_tasks.testing.contract.atomic_claims import AtomicFirstClaims, AtomicReservedClaims
from django_idempotent_tasks.testing.contract.atomic_ends import AtomicResults, Transactions
from django_idempotent_tasks.testing.contract.atomic_rivals import AtomicRivals
from django_idempotent_tasks.testing.contract.batch_outcomes import KeptOutcomes
from django_idempotent_tasks.testing.contract.claims import FirstClaims
from django_idempotent_tasks.testing.contract.duties import Duplicates
from django_idempotent_tasks.testing.contract.reserving import Reservations, ReservedClaims
from django_idempotent_tasks.testing.contract.rivals import Rivals
from django_idempotent_tasks.testing.contract.settling import Settling
from django_idempotent_tasks.testing.contract.steps import KeptSteps
from django_idempotent_tasks.testing.contract.text import Text

OURS = ["django_idempotent_tasks"]


@pytest.mark.postgresql
@pytest.mark.django_db(transaction=True, available_apps=OURS)
class TestPostgreSQL(StoreContract):
    def store(self) -> LedgerStore:
        return get_store("default")


class TestPostgreSQLWithPreparedStatements(TestPostgreSQL):
    """The server binds the parameters, and prepares each statement when it first comes."""

    @pytest.fixture(autouse=True)
    def _prepared_by_the_server(self, transactional_db: None) -> Iterator[None]:  # noqa: ARG002  opened first
        options = connection.settings_dict["OPTIONS"]
        connection.settings_dict["OPTIONS"] = {
            **options,
            "server_side_binding": True,
            "prepare_threshold": 0,
        }
        connection.close()
        try:
            with connection.cursor() as cursor:
                assert issubclass(type(cursor.cursor), ServerBindingCursor)
                cursor.execute("SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%count%'")
                assert cursor.fetchone() == (1,)
            yield
        finally:
            connection.close()
            connection.settings_dict["OPTIONS"] = options


@pytest.mark.postgresql
@pytest.mark.django_db(transaction=True, available_apps=OURS)
class TestPostgreSQLWithOurPreparedStatements(
    FirstClaims,
    Rivals,
    Settling,
    Reservations,
    ReservedClaims,
    Duplicates,
    Text,
    AtomicFirstClaims,
    AtomicReservedClaims,
    AtomicResults,
    Transactions,
    AtomicRivals,
    KeptSteps,
    KeptOutcomes,
):
    """What uses the usual statements, which are prepared when they first come."""

    def store(self) -> LedgerStore:
        return get_store("default")

    @pytest.fixture(autouse=True)
    def _prepared_at_once(self, transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:  # noqa: ARG002  opened first
        monkeypatch.setattr(prepared, "OFTEN", 1)
        connection.close()
        yield
        connection.close()


@pytest.mark.django_db(transaction=True, databases=["default", "sqlite"], available_apps=OURS)
class TestSQLite(StoreContract):
    has_row_locks = False

    def store(self) -> LedgerStore:
        return get_store("sqlite")
