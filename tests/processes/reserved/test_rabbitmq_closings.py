"""RabbitMQ closes channels and connections under everybody, children are killed: orders are done once."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

import pytest

from tests.processes.reserved.programs import ORDER_MANY, program
from tests.processes.reserved.shop import Shop
from tests.processes.reserved.victims import Victims
from tests.support.brokers.vhost import Closings, Vhost
from tests.support.waiting import eventually
from tests.support.workers.processes import Worker

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.usefixtures("undisturbed")]

PUBLISHERS = ("web-1", "web-2")


@dataclass
class Storm:
    """All that happens to the workers and to those who publish."""

    shop: Shop
    key: str
    victims: Victims
    closings: Closings
    workers: list[Worker] = field(default_factory=list)
    ordered: int = 0
    restarted: int = 0
    held: str = ""
    held_at: int = 0

    def blows(self, kills: int) -> bool:
        """Let a little happen; whether there were so many kills, and as many closings of each sort."""
        self.victims.kill()
        if self.victims.killed + self.victims.living < kills:  # some end with their worker and do not count
            self.ordered += 1
            self.victims.order(f"{self.key}-victim-{self.ordered}")
        self.hold()
        self.supervise()
        closed = self.closings.closed
        self.closings.go_on("channels" if closed["channels"] * 3 < closed["connections"] else "connections")
        return self.victims.killed >= kills and min(closed.values()) >= kills

    def hold(self) -> None:
        """Keep an order in its body while all is closed, so that nobody can acknowledge its message then."""
        site, rounds = self.shop.site, self.closings.rounds
        if not self.held:
            self.ordered += 1
            self.held, self.held_at = f"{self.key}-held-{self.ordered}", 0
            site.journal.open(*(f"{self.held}.{attempt}" for attempt in range(2, 9)))
            self.shop.order(self.held, gated=True)
        elif not self.held_at and (site.directory / f"{self.held}.1.visited").exists():
            self.held_at = rounds
        elif self.held_at and rounds >= self.held_at + 3:
            self.let_go()

    def let_go(self) -> None:
        """Let the held order be done."""
        self.shop.site.journal.open(f"{self.held}.1")
        self.held = ""

    def passes(self) -> bool:
        """Close nothing more; whether the last victims are killed and all work is done."""
        if self.held:
            self.let_go()
        self.victims.kill()
        self.supervise()
        return not (self.victims.living or self.shop.live().exists())

    def supervise(self) -> None:
        """Start workers again that have ended: Celery's do, by default, where their channel is closed."""
        for worker in self.workers:
            if not worker.is_alive:
                worker.kill()
                worker.launch()
                self.restarted += 1


@pytest.mark.parametrize(("submissions", "kills", "laps"), [(200, 5, 5), (2000, 30, 25)], ids=["few", "many"])
def test_what_committed_is_done_once_and_what_rolled_back_never_while_channels_and_connections_are_closed(
    vhost: Vhost, vhost_shop: Shop, key: str, submissions: int, kills: int, laps: int
) -> None:
    storm = Storm(vhost_shop, key, Victims(vhost_shop), Closings(vhost))
    storm.workers = [vhost_shop.worker(name, "--concurrency", "2").start() for name in ("first", "second")]
    began = time.monotonic()
    publish(storm, submissions // len(PUBLISHERS), kills, laps)
    storm.closings.end()
    print(
        f"{submissions} submissions took {time.monotonic() - began:.0f} s: {storm.victims.killed} kills,"
        f" closed: {storm.closings.closed}, {storm.restarted} restarts, {storm.ordered} gated orders"
    )
    eventually(storm.passes, "every order is done", within=180, every=0.2)
    print(f"all was done after {time.monotonic() - began:.0f} s")
    assert storm.victims.killed >= kills
    vhost_shop.each_is_done_once()
    assert vhost_shop.keys().count() == submissions * 9 // 10 + storm.ordered


def publish(storm: Storm, submissions: int, kills: int, laps: int) -> None:
    """Let each publisher submit so often while all else happens.

    After each lap they wait for each other, and for their share of the kills and closings.
    """
    shop = storm.shop
    names = [f"{storm.key}-{name}" for name in PUBLISHERS]
    for name in names:
        shop.committed += [f"{name}-{number}" for number in range(submissions) if number % 10 != 9]
    facts = {"options": dict(shop.options), "laps": laps, "size": submissions // laps}
    texts = [ORDER_MANY.format(key=name, **facts) for name in names]
    with ExitStack() as stack:
        processes = [
            stack.enter_context(program(shop, text, broker_url=shop.site.broker.url)) for text in texts
        ]
        for lap in range(laps - 1):
            shop.site.journal.open(*(f"{name}.{lap}" for name in names))
            gates = [shop.site.directory / f"{name}.{lap + 1}.visited" for name in names]
            blow_until([gate.exists for gate in gates], storm, kills * (lap + 1) // laps)
        shop.site.journal.open(*(f"{name}.{laps - 1}" for name in names))
        blow_until([lambda: all(each.poll() is not None for each in processes)], storm, kills)
        assert [each.returncode for each in processes] == [0] * len(processes)


def blow_until(conditions: Sequence[Callable[[], bool]], storm: Storm, kills: int) -> None:
    """Go on until all this is so, and there were as many kills and closings."""
    eventually(
        lambda: storm.blows(kills) and all(each() for each in conditions),
        "the end of a lap",
        within=80,
        every=0.05,
    )
