"""Celery's revoke ends an atomic run: nothing of it is committed, and no copy of it runs again."""

from __future__ import annotations

import json

import pytest

from django_idempotent_tasks.states import State
from tests.deaths.atomic.verdicts import done_once, undone, visitor
from tests.sample import atomic
from tests.support.brokers.control import LISTENING, revoke
from tests.support.ledger.slow_server import COMMIT, COMPLETION, Server
from tests.support.staying import stays
from tests.support.waiting import eventually
from tests.support.workers.processes import Worker
from tests.support.workers.site import Site

pytestmark = pytest.mark.process


def test_running_calls_that_are_terminated_are_cancelled_and_have_committed_nothing(
    site: Site, family: Worker, key: str
) -> None:
    keys = {f"{key}-{how}": how for how in ("SIGTERM", "SIGKILL")}
    calls = {each: site.send(atomic.acting, each, ["written: wait"]).id for each in keys}
    children = [visitor(site, each) for each in keys]
    for each, how in keys.items():
        revoke(site, calls[each], terminate=True, signal=how)

    for each in keys:
        undone(site, each, State.CANCELLED, starts=1)
    eventually(lambda: not set(children) & set(family.children()), "the children have ended")
    assert family.is_alive


def test_a_new_call_of_a_cancelled_key_runs(site: Site, family: Worker, key: str) -> None:
    call = site.send(atomic.acting, key, ["written: wait"]).id
    visitor(site, key)
    revoke(site, call, terminate=True, signal="SIGTERM")
    undone(site, key, State.CANCELLED, starts=1)

    new = site.send(atomic.acting, key, []).id
    assert done_once(site, key, starts=2, crashes=0).task_id == new
    assert family.is_alive


@pytest.mark.slow
def test_copies_of_a_terminated_call_do_not_run_on_a_worker_that_was_not_told(
    own_site: Site, key: str
) -> None:
    site = own_site
    raw = site.park(atomic.acting, key, ["written: wait"])
    with site.running("told", PROJ_CELERY=json.dumps(LISTENING)):
        site.broker.deliver(raw)
        visitor(site, key)
        revoke(site, json.loads(raw)["headers"]["id"], terminate=True, signal="SIGKILL")
        undone(site, key, State.CANCELLED, starts=1)

    with site.running("untold"):
        site.broker.deliver(raw)
        site.broker.deliver(raw, redelivered=True, times=2)
        undone(site, key, State.CANCELLED, starts=1)


def test_a_running_call_that_is_revoked_and_not_terminated_finishes(
    site: Site, family: Worker, key: str
) -> None:
    call = site.send(atomic.acting, key, ["written: wait"]).id
    visitor(site, key)
    revoke(site, call)
    family.wait_for_log(f"Tasks flagged as revoked: {call}")
    site.journal.open(f"{key}.1")

    assert done_once(site, key, starts=1, crashes=0).task_id == call


def test_a_key_that_the_terminated_childs_statement_still_holds_is_cancelled_when_that_ends(
    site: Site, family: Worker, key: str
) -> None:
    server = Server(site.rows.alias)
    with server.holding_up(COMPLETION):
        call = site.send(atomic.acting, key, []).id
        server.wait_until_held_up()
        revoke(site, call, terminate=True, signal="SIGKILL")
        eventually(lambda: site.journal.started(key)["pid"] not in family.children(), "the child has ended")
        stays(lambda: site.rows.find(key) is None, "nobody gets past the lock", seconds=0.5)
        server.let_go()

        undone(site, key, State.CANCELLED, starts=1)
    assert family.is_alive


def test_a_call_that_is_terminated_inside_its_commit_has_succeeded(
    site: Site, family: Worker, key: str
) -> None:
    server = Server(site.rows.alias)
    with server.holding_up(COMMIT):
        call = site.send(atomic.acting, key, []).id
        server.wait_until_held_up()
        revoke(site, call, terminate=True, signal="SIGKILL")
        eventually(lambda: site.journal.started(key)["pid"] not in family.children(), "the child has ended")
        server.let_go()

        done_once(site, key, starts=1, crashes=0)
        stays(lambda: site.rows.row(key).state == State.SUCCEEDED, "it succeeded", seconds=1)
    assert family.is_alive
