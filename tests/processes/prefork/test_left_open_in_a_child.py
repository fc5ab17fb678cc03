"""A transaction that a body leaves open is its own failure, and costs no later call of that worker child."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from django_idempotent_tasks.states import State
from tests.sample import atomic, leaving, tasks
from tests.support.workers.site import Site
from tests.support.workers.sites import keeping_worker, on_database

pytestmark = pytest.mark.process

HOW = ["BEGIN", "autocommit", "a soft time limit inside Django"]

each_how = pytest.mark.parametrize("how", HOW)


@pytest.fixture(scope="module")
def on_postgresql(own_site: Site) -> Iterator[Site]:
    with keeping_worker(own_site, "leaving"):
        yield own_site


@pytest.fixture(scope="module")
def on_sqlite(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    url = f"sqlite:///{tmp_path_factory.mktemp('leaving') / 'ledger.sqlite3'}"
    with on_database(site, url, "leaving") as of_its_own, keeping_worker(of_its_own, "leaving-sqlite"):
        yield of_its_own


@pytest.fixture(params=["postgresql", "sqlite"])
def keeping(request: pytest.FixtureRequest) -> Site:
    """Where one child serves every call on one connection."""
    site: Site = request.getfixturevalue(f"on_{request.param}")
    return site


@each_how
def test_a_leased_body_that_leaves_a_transaction_open_has_failed_and_the_next_calls_are_committed(
    keeping: Site, key: str, how: str
) -> None:
    keeping.send(leaving.leased, key, how)
    row = keeping.rows.wait_for(key, State.FAILED)
    assert (row.attempts, keeping.rows.effects(key)) == (1, [])
    error = keeping.rows.stored(key)
    assert "TransactionLeftOpen" in str(error)
    assert "transaction.atomic()" in str(error)
    innocent_calls_are_committed(keeping, key)


@each_how
def test_a_task_that_nothing_guards_leaves_no_transaction_to_the_calls_after_it(
    keeping: Site, key: str, how: str
) -> None:
    keeping.send(leaving.plain, key, how)
    innocent_calls_are_committed(keeping, key)
    assert keeping.rows.effects(key) == []


@pytest.mark.parametrize("task", [leaving.leased, leaving.plain], ids=["leased", "unguarded"])
def test_a_session_that_a_task_alters_is_not_handed_on(on_postgresql: Site, key: str, task: Any) -> None:
    on_postgresql.send(task, key, "alter the session")
    innocent_calls_are_committed(on_postgresql, key)
    if task is leaving.leased:
        on_postgresql.rows.wait_for(key, State.SUCCEEDED)


def innocent_calls_are_committed(site: Site, key: str) -> None:
    """Six calls, seen from another connection."""
    names = [f"{key}-{number}" for number in range(6)]
    for number, name in enumerate(names):
        if number % 3 == 2:
            site.send(atomic.acting, name, [])
        else:
            site.send([tasks.skipping, tasks.returning][number % 3], name)
    for name in names:
        row = site.rows.wait_for(name, State.SUCCEEDED)
        assert (row.attempts, len(site.rows.effects(name))) == (1, 1)
    site.broker.wait_until_empty()
    assert len({entry["pid"] for name in names for entry in site.journal.read("started", name)}) == 1
