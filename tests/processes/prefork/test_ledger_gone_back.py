"""A ledger that loses a key's row, or goes back in time, under a real body: the work is done all the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.states import Reason, State
from tests.sample import atomic, tasks
from tests.support.ledger.backends import terminate
from tests.support.workers.reserving import charge, sending_to, working
from tests.support.workers.site import Site

pytestmark = pytest.mark.process


def rows(site: Site, key: str) -> Any:
    """The row of a key, to do something to it."""
    return IdempotencyKey.objects.using(site.rows.alias).filter(key_text=f"key={key}")


def vanish(site: Site, key: str) -> None:
    assert rows(site, key).delete()[0] == 1


def go_back(site: Site, key: str) -> None:
    """To the row of an earlier attempt, whose worker has died."""
    row = site.rows.row(key)
    back = {
        "token": 0,
        "owner": "w:1:dead",
        "state": State.RUNNING,
        "open_at": row.created_at,
        "message": None,
    }
    assert rows(site, key).update(**back) == 1


@pytest.mark.usefixtures("pair")
@pytest.mark.parametrize("befall", [vanish, go_back])
@pytest.mark.parametrize("task", [tasks.skipping, tasks.returning], ids=["complete()", "return"])
def test_a_running_call_is_run_again_when_its_row_is_lost(
    site: Site, key: str, task: Any, befall: Callable[[Site, str], None]
) -> None:
    site.send(task, key, gated=True)
    site.journal.started(key)
    befall(site, key)
    site.journal.open(f"{key}.1", f"{key}.2")

    row = site.rows.wait_for(key, State.SUCCEEDED)
    site.broker.wait_until_empty()
    assert site.journal.starts(key) == 2
    assert row.message is None
    assert site.rows.effects(key)[-1].token == row.token


@pytest.mark.usefixtures("pair")
def test_a_call_that_runs_into_its_hard_time_limit_is_a_dead_letter_when_its_row_is_lost(
    site: Site, key: str
) -> None:
    site.send(tasks.endless, key, options={"time_limit": 5})  # the row is to be lost before that
    site.journal.started(key)
    vanish(site, key)
    row = site.rows.wait_for(key, State.FAILED)
    assert (row.reason, row.message is None) == (Reason.RETRIES_USED_UP, False)
    site.broker.wait_until_empty()


def fail_over(site: Site, key: str) -> None:
    """Cut the transaction that has the key; the row that it was made from is not there any more."""
    backend = site.journal.wait_for("waits", key)["backend"]
    assert terminate(f"pid = {backend}", alias=site.rows.alias) == 1
    rows(site, key).delete()


@pytest.mark.parametrize("reserve", [False, True], ids=["sent", "reserved"])
def test_an_atomic_call_is_run_again_when_its_connection_and_its_row_are_lost(
    own_site: Site, key: str, *, reserve: bool
) -> None:
    task = atomic.reserved if reserve else atomic.acting
    with sending_to(own_site), working(own_site, "lone"):
        task.delay(key, ["begun: wait"])
        own_site.journal.started(key)
        fail_over(own_site, key)
        own_site.journal.open(f"{key}.1")
        row = own_site.rows.wait_for(key, State.SUCCEEDED)
        own_site.broker.wait_until_empty()
    assert own_site.journal.starts(key) == 2
    assert [effect.token for effect in own_site.rows.effects(key)] == [row.token]


@pytest.mark.parametrize("befall", [vanish, go_back])
def test_a_reserved_call_is_run_again_when_its_row_is_lost(
    own_site: Site, key: str, befall: Callable[[Site, str], None]
) -> None:
    with sending_to(own_site), working(own_site, "lone"):
        charge.delay(key, gated=True)
        own_site.journal.started(key)
        befall(own_site, key)
        own_site.journal.open(f"{key}.1", f"{key}.2")
        row = own_site.rows.wait_for(key, State.SUCCEEDED)
        own_site.broker.wait_until_empty()
    assert own_site.journal.starts(key) == 2
    assert [effect.token for effect in own_site.rows.effects(key)] == [row.token]
