"""A worker says from its parent that it lives, until it ends, and costs its children nothing."""

from __future__ import annotations

import json
import socket

import pytest

from django_idempotent_tasks.models import Worker as Row
from django_idempotent_tasks.states import State
from tests.sample import tasks
from tests.support.workers.present import present
from tests.support.workers.site import Pair, Site

pytestmark = pytest.mark.process


def test_a_living_worker_says_who_it_is_what_it_consumes_and_what_it_knows(
    site: Site, pair: Pair, key: str
) -> None:
    worker = pair.workers[0]
    row = present(site, worker)
    assert (row.host, row.pool, row.stopped_at) == (socket.gethostname(), "prefork", None)
    assert row.concurrency == len(worker.children())
    assert json.loads(row.queues) == ["celery"]
    assert tasks.skipping.name in json.loads(row.tasks)
    assert not [name for name in json.loads(row.tasks) if name.startswith("celery.")], "guarded tasks only"
    seen = present(site, worker, that=lambda later: later.seen_at > row.seen_at)
    assert seen.started_at == row.started_at
    assert Row.objects.using(site.rows.alias).filter(name=row.name, pid=row.pid).count() == 1

    site.send(tasks.skipping, key, gated=True)
    holder = site.owner(site.journal.started(key))
    owner = site.rows.row(key).owner or ""
    assert owner.startswith(present(site, holder).instance), "the row names the owners of its claims"
    site.journal.open(f"{key}.1")
    site.rows.wait_for(key, State.SUCCEEDED)


def test_a_worker_that_ends_says_so_and_one_that_is_killed_falls_silent(site: Site, key: str) -> None:
    worker = site.worker(f"ending-{key[-8:]}", "-Q", key[-8:]).start()
    lives = present(site, worker)
    worker.terminate()
    assert worker.wait() == 0
    ended = present(site, worker, that=lambda row: row.stopped_at is not None)
    assert ended.stopped_at == ended.seen_at >= lives.seen_at

    with site.running(f"dying-{key[-8:]}", "-Q", key[-8:]) as worker:
        present(site, worker)
        worker.kill()
        row = present(site, worker)
        assert row.stopped_at is None
        assert present(site, worker).seen_at == row.seen_at


def test_children_that_are_forked_again_and_again_disturb_no_word_and_write_none(
    site: Site, key: str
) -> None:
    queue = key[-8:]
    often = ("--concurrency", "1", "--max-tasks-per-child", "1", "-Q", queue)
    with site.running(f"forking-{queue}", *often) as worker:
        first = present(site, worker)
        for number in range(3):
            site.send(tasks.skipping, f"{key}-{number}", options={"queue": queue})
            site.rows.wait_for(f"{key}-{number}", State.SUCCEEDED)
        row = present(site, worker, that=lambda later: later.seen_at > first.seen_at)
        assert row.instance == first.instance
        assert Row.objects.using(site.rows.alias).filter(name=row.name).count() == 1
        assert "does not take" not in worker.text()
