"""Promises of ``note_worker``, ``worker_stopped`` and ``prune_workers``."""
# ruff: noqa: S101, PLR2004  promises are asserted, in plain numbers

from __future__ import annotations

import json
from dataclasses import replace

from ...ledger.presence import Presence
from ...ledger.stores.clock import shifted
from ...models import Worker
from .bench import Bench

HERE = Presence(
    instance="a" * 32,
    name="mail@host",
    host="host",
    pid=4711,
    pool="prefork",
    concurrency=8,
    queues=("celery", "mail"),
    tasks=("shop.tasks.charge",),
    version="1.0",
    age=90.0,
)


class LivingWorkers(Bench):
    """A worker has one row, from its start until a day after its last word."""

    def test_a_worker_is_known_by_what_it_says(self) -> None:
        self.store().note_worker(HERE)
        row = self._worker()
        said = (row.name, row.host, row.pid, row.pool, row.concurrency, row.version)
        assert said == ("mail@host", "host", 4711, "prefork", 8, "1.0")
        assert json.loads(row.queues) == ["celery", "mail"]
        assert json.loads(row.tasks) == ["shop.tasks.charge"]
        assert abs((row.seen_at - row.started_at).total_seconds() - 90) < 1
        assert row.stopped_at is None

    def test_a_worker_that_speaks_again_is_seen_anew_and_keeps_its_start(self) -> None:
        self.store().note_worker(HERE)
        first = self._worker()
        with shifted(10):
            self.store().note_worker(replace(HERE, age=100.0, queues=("mail",), concurrency=2))
        row = self._worker()
        assert row.started_at == first.started_at
        assert 9 <= (row.seen_at - first.seen_at).total_seconds() < 60
        assert (json.loads(row.queues), row.concurrency) == (["mail"], 2)
        assert Worker.objects.using(self.alias).count() == 1

    def test_workers_have_rows_of_their_own(self) -> None:
        self.store().note_worker(HERE)
        before = self._worker()
        with shifted(10):
            self.store().note_worker(replace(HERE, instance="b" * 32, name="other@host"))
            self.store().worker_stopped("b" * 32)
        row = self._worker()
        assert (row.name, row.seen_at, row.stopped_at) == ("mail@host", before.seen_at, None)

    def test_a_worker_that_has_stopped_stays_stopped(self) -> None:
        self.store().worker_stopped(HERE.instance)
        assert not Worker.objects.using(self.alias).exists()
        self.store().note_worker(HERE)
        with shifted(10):
            self.store().worker_stopped(HERE.instance)
        stopped = self._worker()
        assert stopped.stopped_at == stopped.seen_at > stopped.started_at
        with shifted(20):
            self.store().note_worker(HERE)
            self.store().worker_stopped(HERE.instance)
        assert self._worker().stopped_at == stopped.stopped_at

    def test_a_worker_is_forgotten_when_it_is_silent_for_long_and_not_before(self) -> None:
        self.store().note_worker(HERE)
        with shifted(100):
            self.store().note_worker(replace(HERE, instance="b" * 32))
        with shifted(150):
            assert self.store().prune_workers(keep=200, bite=10) == 0
            assert self.store().prune_workers(keep=100, bite=10) == 1
        assert [row.instance for row in Worker.objects.using(self.alias)] == ["b" * 32]

    def test_workers_are_forgotten_a_bite_at_a_time_and_the_oldest_first(self) -> None:
        for place, name in enumerate("cab"):
            with shifted(place * 10):
                self.store().note_worker(replace(HERE, instance=name * 32))
        with shifted(100):
            assert self.store().prune_workers(keep=10, bite=1) == 1
            left = Worker.objects.using(self.alias).values_list("instance", flat=True)
            assert sorted(left) == ["a" * 32, "b" * 32]
            assert [self.store().prune_workers(keep=10, bite=1) for _ in range(3)] == [1, 1, 0]

    def _worker(self) -> Worker:
        return Worker.objects.using(self.alias).get(instance=HERE.instance)
