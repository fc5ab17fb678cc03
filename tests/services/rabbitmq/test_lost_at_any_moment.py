"""Children, workers and connections are lost at any moment under calls of all modes: all is done once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from django_idempotent_tasks.states import State
from tests.sample import atomic
from tests.sample.reserving import enduring, ordering
from tests.services.rabbitmq.conftest import ENVIRONMENT, Ground
from tests.support.brokers.vhost import Closings, Vhost
from tests.support.waiting import eventually
from tests.support.workers.storm import Storm

pytestmark = [pytest.mark.process, pytest.mark.slow]

#: By turns: those of which nothing is written when they are sent are lost where RabbitMQ or a copy is.
TURNS: tuple[Any, ...] = (ordering, atomic.brief, enduring, atomic.ordering)


@dataclass
class MixedStorm(Storm):
    """Calls of all modes; connections are closed as well, at each kill."""

    closings: Closings | None = None

    def _send(self, key: str, *, retried: bool = False) -> None:
        task = TURNS[int(key.rpartition("-")[2]) % len(TURNS)]
        task.delay(key, **({"retried": retried} if task in (atomic.brief, atomic.ordering) else {}))

    def _kill_worker(self) -> None:
        assert self.closings is not None
        self.closings.go_on("connections")
        super()._kill_worker()

    def calm(self) -> None:
        """Wait until every key has succeeded: RabbitMQ forgets nothing."""

        def is_calm() -> bool:
            return self._revive() and self._succeeded() == len(self.keys)

        try:
            eventually(is_calm, "all succeeded", within=240, every=0.2)
        except AssertionError as error:
            rows = self._rows()
            left = {key: rows.get(key) for key in self.keys if rows.get(key) != State.SUCCEEDED}
            raise AssertionError(f"{error}; {self.site.broker.waiting()} messages, {left}") from None
        self.site.broker.wait_until_empty()


@pytest.fixture(params=[pytest.param("quorum", marks=pytest.mark.long), "delayed"])
def storm(request: pytest.FixtureRequest, ground: Ground, vhost: Vhost, key: str) -> Iterator[MixedStorm]:
    """Two workers with two children each, not yet started; this process sends to them."""
    site = ground(request.param, "storm")
    workers = [site.worker(name, "--concurrency", "2", **ENVIRONMENT) for name in ("first", "second")]
    yield MixedStorm(site, key, workers, closings=Closings(vhost))
    for worker in workers:
        worker.kill()


@pytest.mark.parametrize(
    ("calls", "kills"), [(150, 10), pytest.param(1000, 60, marks=pytest.mark.long)], ids=["few", "many"]
)
def test_every_key_has_succeeded_with_one_effect(storm: MixedStorm, calls: int, kills: int) -> None:
    storm.send(calls)
    storm.rage(kills)
    storm.calm()

    assert storm.closings is not None
    storm.closings.end()
    assert sum(storm.killed.values()) == kills
    assert storm.effects() == dict.fromkeys(storm.keys, 1)
    starts = sum(1 for _ in storm.starts())
    print(f"{starts} starts of {calls} calls, {dict(storm.killed)} killed, {storm.closings.closed} closed")
    assert starts > calls, "the kills struck nobody"
