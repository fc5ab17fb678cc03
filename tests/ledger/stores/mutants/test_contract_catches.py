"""The shipped contract is able to fail: for each mistake, the promise that it breaks."""

from __future__ import annotations

import pytest

from tests.ledger.stores.mutants.broken_store import Mutation, contract_on
from tests.ledger.stores.mutants.mistakes import BOTH, POSTGRESQL, SQLITE

pytestmark = pytest.mark.django_db(
    transaction=True, databases=["default", "sqlite"], available_apps=["django_idempotent_tasks"]
)

HARMLESS = Mutation("nothing is wrong", "state = 2", "state = 2 ", "a_claim_is_settled_once")

#: The same mistakes in statements of the same text: once more on SQLite is for the whole suite.
ALSO_ON_POSTGRESQL = [pytest.param(mutation, marks=pytest.mark.slow, id=mutation.name) for mutation in BOTH]


def named(mutation: Mutation) -> str:
    return mutation.name


def is_caught(alias: str, mutation: Mutation) -> None:
    """Its promise must fail, and for the reason that the mistake was carried out."""
    contract, changed = contract_on(alias, mutation)
    with pytest.raises(AssertionError):
        getattr(contract, f"test_{mutation.promise}")()
    assert changed, f"no statement contains {mutation.old!r} any more: the mutation has to be written anew"


@pytest.mark.postgresql
@pytest.mark.parametrize("mutation", [*BOTH, *POSTGRESQL], ids=named)
def test_on_postgresql_it_is_caught_that(mutation: Mutation) -> None:
    is_caught("default", mutation)


@pytest.mark.parametrize("mutation", [*ALSO_ON_POSTGRESQL, *SQLITE], ids=named)
def test_on_sqlite_it_is_caught_that(mutation: Mutation) -> None:
    is_caught("sqlite", mutation)


@pytest.mark.parametrize("alias", ["default", "sqlite"])
def test_a_change_that_is_no_mistake_is_not_taken_for_one(alias: str) -> None:
    contract, changed = contract_on(alias, HARMLESS)
    contract.test_a_claim_is_settled_once()
    assert changed


def test_every_promise_that_a_mutation_names_is_one_of_the_contract() -> None:
    for mutation in (*BOTH, *POSTGRESQL, *SQLITE):
        assert hasattr(contract_on("sqlite", mutation)[0], f"test_{mutation.promise}"), mutation.name
