"""Old workers, whose task is plain, and new ones run side by side under load: no call is lost or doubled."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from django.db.models import QuerySet

from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.states import LIVE
from tests.support.waiting import eventually
from tests.support.workers.processes import ROOT, Worker
from tests.support.workers.site import Site

pytestmark = pytest.mark.process

#: Orders that are sold in each phase of a deployment.
PHASE = 20


def version(name: str, **ours: object) -> dict[str, str]:
    """What the processes of a version have in their environment."""
    settings = {"REPUBLISH_AFTER": 1, **ours}
    return {
        "PROJ_VERSION": name,
        "PROJ_RESULT_BACKEND": "disabled://",
        "PROJ_IDEMPOTENT_TASKS": json.dumps(settings),
    }


OLD = version("old", SWEEPER="off")


@dataclass
class Fleet:
    """Two places for workers and any number of sellers, of an old and a new version."""

    site: Site
    prefix: str
    new: dict[str, str]
    places: list[Worker] = field(default_factory=list)
    sellers: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    ran: Counter[str] = field(default_factory=Counter)

    def worker(self, environment: dict[str, str]) -> Worker:
        """A worker that takes messages."""
        arguments = ("--concurrency", "2", "--include", "tests.processes.adopting.shop")
        return self.site.worker("shop", *arguments, **environment).start()

    def replace(self, place: int, environment: dict[str, str]) -> None:
        """Roll one worker over, as a deployment does: a warm end of the one, then the other."""
        self.places[place].terminate()
        self.places[place].wait()
        self.places[place] = self.worker(environment)

    def sell(self, environment: dict[str, str]) -> None:
        """Start a seller of a version, beside those that sell."""
        name = f"{self.prefix}-{len(self.sellers)}"
        place = self.places[0].environment
        command = [sys.executable, "-m", "tests.processes.adopting.shop", name]
        self.sellers[name] = subprocess.Popen(command, cwd=ROOT, env={**os.environ, **place, **environment})

    def sold(self) -> list[str]:
        """All orders."""
        return [each["key"] for each in self.site.journal.read("sold") if each["key"].startswith(self.prefix)]

    def go_on(self) -> None:
        """Let so many more orders be sold and as many be charged."""
        sold, charged = len(self.sold()), self.done("charged").total()
        eventually(lambda: len(self.sold()) >= sold + PHASE, "orders", within=60)
        eventually(lambda: self.done("charged").total() >= charged + PHASE, "charges", within=60)

    def done(self, event: str) -> Counter[str]:
        """How often each order was charged, or mailed."""
        found = (each["key"] for each in self.site.journal.read(event))
        return Counter(order for order in found if order.startswith(self.prefix))

    def wait_until_calm(self) -> None:
        """Wait until nothing is left to do, in the broker or in the ledger."""
        eventually(lambda: not self.left(), "nothing is left", within=90, every=0.2)

    def live(self) -> QuerySet[IdempotencyKey]:
        """The keys that have not ended."""
        return IdempotencyKey.objects.using(self.site.rows.alias).filter(state__in=LIVE)

    def stop(self, count: int) -> None:
        """End the sellers that began first, each after a whole order."""
        for name in list(self.sellers)[:count]:
            (self.site.directory / f"{name}.end").touch()
            assert self.sellers[name].wait(30) == 0

    def wait_until_the_new_have_done(self) -> None:
        """Wait until nothing is left that only new workers do."""
        waiting = self.site.broker.waiting
        eventually(
            lambda: not (self.live().exists() or waiting("celery.guarded")), "new calls are done", within=90
        )

    def left(self) -> list[object]:
        """What waits or runs."""
        broker = self.site.broker
        messages = broker.waiting() + broker.waiting("celery.guarded") + broker.unacknowledged()
        return [*self.live(), *[messages] * (messages > 0)]

    def verdict(self) -> tuple[int, int]:
        """How many orders were lost, and how many were charged or mailed more than once."""
        sold = self.sold()
        counts = [self.done(event) for event in ("charged", "mailed")]
        lost = sum(1 for count in counts for order in sold if order not in count)
        doubled = sum(1 for count in counts for order in sold if count[order] > 1)
        print(f"{len(sold)} orders, {lost} lost, {doubled} doubled, {self.by_version()}")
        return lost, doubled

    def by_version(self) -> dict[str, int]:
        """How many calls each version has run."""
        found = [*self.site.journal.read("charged"), *self.site.journal.read("mailed")]
        return dict(Counter(each["version"] for each in found if each["key"].startswith(self.prefix)))


@pytest.fixture
def fleet(own_site: Site, key: str, request: pytest.FixtureRequest) -> Iterator[Fleet]:
    """Two old workers and an old seller at work."""
    fleet = Fleet(own_site, key[-8:], version("new", **getattr(request, "param", {})))
    fleet.places = [fleet.worker(OLD), fleet.worker(OLD)]
    fleet.sell(OLD)
    yield fleet
    for seller in fleet.sellers.values():
        seller.kill()
        seller.wait()
    for worker in own_site.workers:
        worker.kill()


@pytest.mark.slow
@pytest.mark.parametrize("fleet", [{"ADOPTING": True}], indirect=True)
def test_a_deployment_and_its_way_back_lose_and_double_nothing(fleet: Fleet) -> None:
    ending, done = version("new", ADOPTING="ending"), version("new")
    fleet.go_on()
    for place in (0, 1):  # over: workers first, then senders
        fleet.replace(place, fleet.new)
        fleet.sell(fleet.new)
        fleet.go_on()
    fleet.replace(0, OLD)  # back half way, and over again
    fleet.go_on()
    fleet.replace(0, fleet.new)
    fleet.stop(1)  # the last old sender
    fleet.go_on()
    for settings in (ending, done):  # and adoption ends, in two steps
        fleet.replace(0, settings)
        fleet.sell(settings)
        fleet.go_on()
        fleet.replace(1, settings)
        fleet.go_on()
        if settings is ending:
            fleet.stop(3)
            eventually(
                lambda: not fleet.site.broker.waiting("celery.guarded"),
                "the second queue is empty",
                within=60,
            )
    fleet.stop(len(fleet.sellers))
    fleet.wait_until_calm()
    assert fleet.verdict() == (0, 0)
    assert set(fleet.by_version()) == {"old", "new"}


@pytest.mark.parametrize("fleet", [{"ADOPTING": True}], indirect=True)
def test_the_way_back_to_the_old_version_waits_for_a_new_worker_to_finish(fleet: Fleet) -> None:
    fleet.replace(0, fleet.new)
    fleet.sell(fleet.new)
    fleet.go_on()
    fleet.stop(2)
    fleet.sell(OLD)
    fleet.wait_until_the_new_have_done()
    fleet.replace(0, OLD)
    fleet.go_on()
    fleet.stop(len(fleet.sellers))
    eventually(fleet.site.broker.is_empty, "the old ones have done it")
    assert fleet.verdict() == (0, 0)


@pytest.mark.parametrize("fleet", [{}], indirect=True)
def test_without_the_setting_the_checker_finds_doubled_work(fleet: Fleet) -> None:
    fleet.replace(0, fleet.new)
    fleet.sell(fleet.new)
    eventually(lambda: any(count > 1 for count in fleet.done("charged").values()), "doubled work", within=60)
    fleet.stop(len(fleet.sellers))
    assert fleet.verdict()[1] > 0
