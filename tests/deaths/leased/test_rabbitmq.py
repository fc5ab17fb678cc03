"""What RabbitMQ does differently when somebody dies: it delivers again at once, to whoever is left."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from urllib.parse import urlsplit

import pytest

from django_idempotent_tasks.states import Reason, State
from tests.deaths.leased.verdicts import done_once, failed_once, next_attempt
from tests.deaths.verdicts import NEXT_CLAIM_WITHIN
from tests.sample import death
from tests.support.brokers.rabbitmq import RabbitBroker, RabbitSite, rabbitmq_url, through
from tests.support.brokers.vhost import undisturbed  # noqa: F401  asked for by name
from tests.support.ledger.databases import empty_database
from tests.support.ledger.rows import Rows
from tests.support.network.cutting import CuttingProxy
from tests.support.staying import stays
from tests.support.waiting import eventually
from tests.support.workers import processes
from tests.support.workers.processes import Worker
from tests.support.workers.site import Pair, Site

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("undisturbed")]

LEASE = 2


@pytest.fixture(scope="module")
def ground(site: Site) -> Iterator[Callable[[str], RabbitSite]]:
    """Makes sites with a queue each, empty before, gone afterwards; rows stay until the last test."""
    with ExitStack() as stack:
        url = stack.enter_context(empty_database("rabbitmq"))

        def make(queue: str) -> RabbitSite:
            broker = RabbitBroker(rabbitmq_url(), prefix=f"death-{os.getpid()}-{queue}")
            broker.clear()
            stack.callback(broker.clear)
            rabbit = RabbitSite(site.directory, url, broker, site.journal, Rows("rabbitmq"))
            stack.callback(rabbit.close)
            return rabbit

        yield make


@pytest.fixture(scope="module")
def rabbit_site(ground: Callable[[str], RabbitSite]) -> RabbitSite:
    """Where two workers share a queue."""
    return ground("shared")


@pytest.fixture(scope="module")
def _pair(rabbit_site: RabbitSite) -> Iterator[Pair]:
    both = rabbit_site.pair("--concurrency", "2")
    yield both
    both.kill()


@pytest.fixture(scope="module")
def proxy() -> Iterator[CuttingProxy]:
    """What stands between a worker and RabbitMQ."""
    with CuttingProxy(urlsplit(rabbitmq_url()).port or 5672) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def behind_site(ground: Callable[[str], RabbitSite], proxy: CuttingProxy) -> Iterator[RabbitSite]:
    """Where a worker reaches its queue through the proxy."""
    site = ground("behind")
    with site.running("behind", "--concurrency", "2", CELERY_BROKER_URL=through(proxy.port, site.broker.url)):
        yield site


def test_a_killed_child_is_followed_by_another_within_six_seconds(
    rabbit_site: RabbitSite, pair: Pair, key: str
) -> None:
    rabbit_site.send(death.acting, key, ["wait"])
    killed = time.time()
    processes.kill(rabbit_site.journal.started(key)["pid"])

    assert next_attempt(rabbit_site, key, died=True)["at"] - killed < NEXT_CLAIM_WITHIN
    done_once(rabbit_site, key, attempts=2, crashes=1)
    assert all(worker.is_alive for worker in pair.workers)


def test_the_work_of_a_killed_worker_goes_on_elsewhere_after_its_lease(
    rabbit_site: RabbitSite, pair: Pair, key: str
) -> None:
    rabbit_site.send(death.brief, key, ["wait"])
    owner = rabbit_site.owner(rabbit_site.journal.started(key))
    killed = time.time()
    owner.kill()

    second = next_attempt(rabbit_site, key, died=True)
    assert second["pid"] in pair.other(owner).children()
    assert second["at"] - killed < LEASE + 20
    done_once(rabbit_site, key, attempts=2, crashes=1)


def test_a_body_ended_by_the_hard_limit_has_failed_and_is_not_run_again(
    rabbit_site: RabbitSite, pair: Pair, key: str
) -> None:
    rabbit_site.send(death.brief, key, ["wait"], options={"time_limit": 1})

    failed_once(rabbit_site, key, attempts=1, crashes=0, error="TimeLimitExceeded")
    stays(lambda: rabbit_site.journal.starts(key) == 1, "not run again", seconds=LEASE + 1)
    assert all(worker.is_alive for worker in pair.workers)


def test_a_cold_shutdown_frees_the_key_at_once(rabbit_site: RabbitSite, pair: Pair, key: str) -> None:
    rabbit_site.send(death.acting, key, ["wait"])
    owner = rabbit_site.owner(rabbit_site.journal.started(key))
    told = time.time()
    owner.process.send_signal(signal.SIGQUIT)

    second = next_attempt(rabbit_site, key, died=False)
    assert second["pid"] in pair.other(owner).children()
    assert second["at"] - told < NEXT_CLAIM_WITHIN
    done_once(rabbit_site, key, attempts=2, crashes=0)
    owner.wait()


def test_a_message_that_kills_takes_three_children_of_a_classic_queue_and_not_more(
    rabbit_site: RabbitSite, pair: Pair, key: str
) -> None:
    rabbit_site.send(death.acting, key, ["die"] * 9)

    row = rabbit_site.rows.wait_for(key, State.FAILED, within=60)
    assert (row.reason, row.crashes, rabbit_site.journal.starts(key)) == (Reason.POISON, 3, 3)
    assert all(worker.is_alive for worker in pair.workers)


def wait_for_a_copy(worker: Worker, call: str) -> None:
    """Wait until the message of a call was delivered a second time."""
    eventually(lambda: worker.text().count(f"[{call}] received") >= 2, "a copy is delivered")


def test_a_body_whose_connection_is_cut_is_not_run_twice(
    behind_site: RabbitSite, proxy: CuttingProxy, key: str
) -> None:
    site = behind_site
    call = site.send(death.brief, key, ["wait"]).id
    site.journal.started(key)
    proxy.cut()
    wait_for_a_copy(site.workers[0], call)
    site.journal.open(f"{key}.1")

    done_once(site, key, attempts=1, crashes=0)
    assert site.journal.starts(key) == 1


def test_a_body_that_completes_while_the_broker_is_out_of_reach_is_not_run_again(
    behind_site: RabbitSite, proxy: CuttingProxy, key: str
) -> None:
    site = behind_site
    call = site.send(death.acting, key, ["wait"]).id
    site.journal.started(key)
    proxy.go_down()
    site.journal.open(f"{key}.1")
    site.rows.wait_for(key, State.SUCCEEDED)

    proxy.thaw()
    wait_for_a_copy(site.workers[0], call)
    done_once(site, key, attempts=1, crashes=0)
    assert site.journal.starts(key) == 1


def test_a_retry_that_is_asked_for_while_the_broker_is_out_of_reach_is_sent_later(
    behind_site: RabbitSite, proxy: CuttingProxy, key: str
) -> None:
    site = behind_site
    site.send(death.brief, key, ["retry after the gate"])
    site.journal.started(key)
    proxy.go_down()
    site.journal.open(f"{key}.1")
    site.workers[0].wait_for_log("its retry was not sent")
    assert site.rows.row(key).state == State.RETRY

    proxy.thaw()
    done_once(site, key, attempts=2, crashes=0)
    assert site.journal.starts(key) == 2


def test_no_message_is_left_when_the_workers_have_ended(
    rabbit_site: RabbitSite, behind_site: RabbitSite, pair: Pair, key: str
) -> None:
    for site in (rabbit_site, behind_site):
        site.send(death.brief, f"{key}-{site.broker.prefix}", [])
        site.rows.wait_for(f"{key}-{site.broker.prefix}", State.SUCCEEDED)
    for worker in (*pair.workers, *behind_site.workers):
        worker.terminate()
    for worker in (*pair.workers, *behind_site.workers):
        worker.wait()

    assert [site.broker.waiting() for site in (rabbit_site, behind_site)] == [0, 0]
