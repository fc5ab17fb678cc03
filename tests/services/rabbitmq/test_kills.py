"""Children, workers and connections are lost under tasks of each mode, on queues of each kind."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from django_idempotent_tasks.states import Reason, State
from tests.sample import atomic, death
from tests.support.brokers.rabbitmq import RabbitSite
from tests.support.brokers.vhost import Closings, Vhost
from tests.support.waiting import eventually
from tests.support.workers import processes
from tests.support.workers.site import Pair

pytestmark = [pytest.mark.process, pytest.mark.slow]

MODES = {
    "leased": (death.brief, ["wait"], ["die"] * 9),
    "atomic": (atomic.acting, ["written: wait"], ["written: die"] * 9),
    "reserved": (atomic.reserved, ["written: wait"], ["written: die"] * 9),
}
#: Seconds: the lease of a leased task, its end noticed, and a countdown of a whole second.
AGAIN = 25.0


@pytest.fixture(params=["leased", "atomic", pytest.param("reserved", marks=pytest.mark.long)])
def mode(request: pytest.FixtureRequest) -> tuple[Any, list[str], list[str]]:
    """A task, and its plans to wait and to die."""
    return MODES[request.param]


def waits(site: RabbitSite, key: str, mode: tuple[Any, list[str], list[str]]) -> dict[str, Any]:
    """Send a call and wait until its body is at its gate; the entry of its start."""
    task, plan, _ = mode
    task.delay(key, plan)
    eventually((site.directory / f"{key}.1.visited").exists, f"{key} waits")
    return site.journal.wait_for("started", key)


def is_done_once(site: RabbitSite, key: str, *, starts: int, crashes: int | None = None) -> None:
    """One effect, of the last start; no message is left."""
    row = site.rows.wait_for(key, State.SUCCEEDED, within=AGAIN)
    site.broker.wait_until_empty()
    assert [effect.token for effect in site.rows.effects(key)] == [row.token]
    assert site.journal.starts(key) == starts
    assert crashes in {None, row.crashes}


def test_a_killed_child_is_followed_by_another(queue: RabbitSite, pair: Pair, key: str, mode: Any) -> None:
    processes.kill(waits(queue, key, mode)["pid"])

    is_done_once(queue, key, starts=2, crashes=1)
    assert all(worker.is_alive for worker in pair.workers)


def test_the_work_of_a_killed_worker_goes_on_elsewhere(
    queue: RabbitSite, pair: Pair, key: str, mode: Any
) -> None:
    owner = queue.owner(waits(queue, key, mode))
    owner.kill()

    is_done_once(queue, key, starts=2)
    assert queue.journal.wait_for("started", key, count=2)["pid"] in pair.other(owner).children()


@pytest.mark.usefixtures("pair")
def test_a_warm_shutdown_lets_the_body_finish(queue: RabbitSite, key: str, mode: Any) -> None:
    owner = queue.owner(waits(queue, key, mode))
    owner.terminate()
    owner.wait_for_log("Warm shutdown")
    queue.journal.open(f"{key}.1")
    owner.wait()

    is_done_once(queue, key, starts=1, crashes=0)


@pytest.mark.usefixtures("pair")
def test_a_cold_shutdown_frees_the_key_at_once(queue: RabbitSite, key: str, mode: Any) -> None:
    owner = queue.owner(waits(queue, key, mode))
    owner.process.send_signal(signal.SIGQUIT)

    queue.journal.wait_for("started", key, count=2, within=6)
    is_done_once(queue, key, starts=2, crashes=0)
    owner.wait()


def test_a_body_under_which_every_connection_is_closed_runs_once(
    queue: RabbitSite, pair: Pair, vhost: Vhost, key: str, mode: Any
) -> None:
    waits(queue, key, mode)
    looks = [worker.text().count(" received") for worker in pair.workers]
    closings = Closings(vhost)
    closings.go_on("connections")
    closings.end()
    assert closings.closed["connections"] >= 2
    eventually(
        lambda: [worker.text().count(" received") for worker in pair.workers] != looks, "a copy is delivered"
    )
    queue.journal.open(f"{key}.1")

    is_done_once(queue, key, starts=1, crashes=0)


def test_a_call_that_kills_takes_three_children_and_not_more(
    queue: RabbitSite, pair: Pair, key: str, mode: Any
) -> None:
    task, _, plan = mode
    task.delay(key, plan)

    row = queue.rows.wait_for(key, State.FAILED, within=60)
    assert (row.reason, row.crashes, queue.journal.starts(key)) == (Reason.POISON, 3, 3)
    assert all(worker.is_alive for worker in pair.workers)


def test_no_message_is_left_when_the_workers_have_ended(queue: RabbitSite, pair: Pair) -> None:
    for worker in pair.workers:
        worker.terminate()
    for worker in pair.workers:
        worker.wait()
    assert queue.broker.waiting() == 0
