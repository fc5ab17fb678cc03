"""Workers whose package is broken on purpose lose, double or delay work: these tests are able to see it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from django_idempotent_tasks.states import State
from example_project.servers import Server, start_broker
from tests.deaths.leased.verdicts import next_attempt
from tests.deaths.verdicts import NEXT_CLAIM_WITHIN, stamp
from tests.sample import death, tasks
from tests.support.brokers.broker import Broker
from tests.support.ledger.databases import empty_database
from tests.support.ledger.rows import Rows
from tests.support.staying import stays
from tests.support.waiting import eventually
from tests.support.workers import processes
from tests.support.workers.site import Site

pytestmark = pytest.mark.process

#: A lease of two seconds is over, and a copy that waited for it has come.
AFTER_THE_LEASE = 4.0
#: Nobody sweeps: what a variant loses would be healed by that.
SETTINGS = {"PROJ_IDEMPOTENT_TASKS": '{"SWEEPER": "off"}', "PROJ_RESULT_BACKEND": "disabled://"}
VARIANTS = {
    "hookless": "no parent hook",
    "unfenced": "no fencing",
    "dropping": "no parent hook,busy copies dropped",
    "reviving": "taken leases renewed",
    "hasty": "retries published first",
    "sound": "",
}


@dataclass(frozen=True)
class Broken:
    """A site for each variant, and the broker of the hasty one."""

    sites: dict[str, Site]
    server: Server


@pytest.fixture(scope="module")
def broken(site: Site) -> Iterator[Broken]:
    """One worker with two children for each variant, all started at once."""
    with ExitStack() as stack:
        server = stack.enter_context(start_broker())
        url = stack.enter_context(empty_database("broken"))
        sites = {}
        for name, variant in VARIANTS.items():
            broker = Broker(
                server.url if name == "hasty" else site.broker.url, f"{site.broker.prefix}{name}:"
            )
            own = sites[name] = Site(site.directory, url, broker, site.journal, Rows("broken"))
            stack.callback(own.close)
            own.worker(name, "--concurrency", "2", **SETTINGS, PROJ_BROKEN=variant).launch()
        for own in sites.values():
            own.workers[0].wait_until_ready()
        yield Broken(sites, server)
        site.journal.open_all()


@pytest.fixture(scope="module")
def killed_without_hook(broken: Broken) -> tuple[str, float]:
    """A key whose child was killed under a worker without the hook, and when. Others run meanwhile."""
    hookless, key = broken.sites["hookless"], "killed-without-hook"
    hookless.send(death.acting, key, ["wait"])
    pid = hookless.journal.started(key)["pid"]
    processes.kill(pid)
    return key, time.monotonic()


@pytest.fixture(autouse=True)
def _killed(killed_without_hook: tuple[str, float]) -> None:
    """Kill it before the first test."""


def pause_past_the_lease(
    site: Site, key: str, *, task: object, plan: list[str] | None = None
) -> tuple[int, bytes]:
    """Stop the child that runs a key until its lease is over; the child, and the message as it was sent."""
    raw = site.park(task, key, *([plan] if plan else []))
    site.broker.deliver(raw)
    pid = site.journal.started(key)["pid"]
    processes.pause(pid)
    eventually(lambda: stamp(site.rows.row(key).open_at) < time.time(), "the lease is over")
    return pid, raw


def test_without_fencing_a_paused_owner_doubles_the_effect(broken: Broken, key: str) -> None:
    unfenced, sound = broken.sites["unfenced"], broken.sites["sound"]
    for number, site in enumerate((unfenced, sound)):
        name = f"{key}-{number}"
        pid, raw = pause_past_the_lease(site, name, task=death.brief, plan=["wait"])
        site.broker.deliver(raw, redelivered=True)
        site.rows.wait_for(name, State.SUCCEEDED)
        site.journal.open(f"{name}.1")
        processes.resume(pid)

    eventually(lambda: len(unfenced.rows.effects(f"{key}-0")) == 2, "two effects")
    sound.journal.wait_for("refused", f"{key}-1")
    assert len(sound.rows.effects(f"{key}-1")) == 1
    assert unfenced.journal.read("refused", f"{key}-0") == []


def test_a_copy_that_is_dropped_because_its_key_is_busy_loses_the_work(broken: Broken, key: str) -> None:
    dropping, hookless = broken.sites["dropping"], broken.sites["hookless"]
    for site, name in ((dropping, f"{key}-dropped"), (hookless, f"{key}-kept")):
        site.send(death.brief, name, ["wait"])
        processes.kill(site.journal.started(name)["pid"])

    dropping.broker.wait_until_empty()
    stays(lambda: dropping.journal.starts(f"{key}-dropped") == 1, "no next start", seconds=AFTER_THE_LEASE)
    lost = dropping.rows.row(f"{key}-dropped")
    assert (lost.state, stamp(lost.open_at) < time.time()) == (State.RUNNING, True)
    next_attempt(hookless, f"{key}-kept", died=True)
    hookless.rows.wait_for(f"{key}-kept", State.SUCCEEDED)


def test_a_heartbeat_that_renews_a_lease_of_another_hides_its_loss(broken: Broken, key: str) -> None:
    reviving, sound = broken.sites["reviving"], broken.sites["sound"]
    for number, site in enumerate((reviving, sound)):
        name = f"{key}-{number}"
        pid, raw = pause_past_the_lease(site, name, task=tasks.watching)
        site.broker.deliver(raw, redelivered=True)
        site.journal.started(name, attempt=2)
        processes.resume(pid)

    sound.journal.wait_for("lost", f"{key}-1")
    stays(
        lambda: not reviving.journal.read("lost", f"{key}-0"), "no word of the loss", seconds=AFTER_THE_LEASE
    )


def test_a_retry_that_is_published_before_it_is_written_is_lost_with_the_broker(
    broken: Broken, key: str
) -> None:
    site = broken.sites["hasty"]
    site.send(death.brief, key, ["retry after the gate"])
    site.journal.started(key)
    broken.server.kill()
    site.broker.close()
    site.journal.open(f"{key}.1")

    row = site.rows.wait_for(key, State.FAILED)
    assert "Reject" in (row.result or "")
    broken.server.restart()
    stays(lambda: site.journal.starts(key) == 1, "no next start", seconds=AFTER_THE_LEASE)


def test_without_the_parent_hook_the_next_claim_is_late(
    broken: Broken, killed_without_hook: tuple[str, float]
) -> None:
    site, (key, killed) = broken.sites["hookless"], killed_without_hook
    eventually(lambda: time.monotonic() > killed + NEXT_CLAIM_WITHIN, "six seconds passed")

    assert site.journal.starts(key) == 1
    assert site.rows.row(key).state == State.RUNNING
