"""Workers' children die over the chunks of a batch: each record is done once, and the batch ends once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from django_idempotent_tasks import Batch, submit_batch
from django_idempotent_tasks.models import IdempotencyKey
from tests.sample import batching
from tests.sample.celery import app
from tests.sample.models import Effect
from tests.support.waiting import eventually
from tests.support.workers import processes
from tests.support.workers.processes import Worker
from tests.support.workers.site import Site

pytestmark = pytest.mark.process
CHUNK = 50


@contextmanager
def sending_to(site: Site) -> Iterator[None]:
    """Let this process send to the site's broker."""
    before = app.conf.broker_transport_options
    options = {"global_keyprefix": site.broker.prefix}
    app.conf.update(broker_transport_options=options, broker_write_url=site.broker.url)
    yield
    app.conf.update(broker_transport_options=before, broker_write_url=None)


def submit(site: Site, task: Any, name: str, number: int, *, chunk_size: int, deadly: str = "") -> Batch:
    """Submit so many records, whose effects are named after the test."""
    with sending_to(site):
        return submit_batch(
            task,
            range(number),
            batch_key=name,
            chunk_size=chunk_size,
            kwargs={"name": name, "deadly": deadly},
            callback=batching.finished.s(name),
        )


def done(name: str) -> Counter[str]:
    """How often each effect of a test was written."""
    found = Effect.objects.filter(key__startswith=f"{name}-").values_list("key", flat=True)
    return Counter(key.removeprefix(f"{name}-") for key in found)


def wait_until_finished(batch: Batch, name: str, number: int, *, within: float = 60.0) -> None:
    """Wait for the end of the batch; then each record was done once, and the callback called once."""
    eventually(lambda: done(name)["finished"], "the callback", within=within)
    assert done(name) == Counter([*map(str, range(number)), "finished"])
    assert batch.refresh().state == "finished"
    assert batch.counts["ok"] == number
    assert Effect.objects.get(key=f"{name}-finished").note == str(batch.id)


def test_fifty_chunks_whose_children_are_killed_at_another_record_each(
    site: Site, family: Worker, key: str
) -> None:
    batch = submit(site, batching.register, key, CHUNK * CHUNK, chunk_size=CHUNK, deadly="each")
    wait_until_finished(batch, key, CHUNK * CHUNK, within=240.0)
    rows = IdempotencyKey.objects.filter(key_text__startswith=f"{batch.id.hex}:", task="batching.register")
    assert {row.attempts for row in rows} == {2}
    firsts = Effect.objects.filter(key__startswith=f"{key}-", attempt=1).exclude(key=f"{key}-finished")
    assert firsts.count() == sum(range(CHUNK))  # what the first attempts had done stays, and is not repeated
    assert family.is_alive


@pytest.mark.usefixtures("family")
def test_records_that_are_tried_again_cost_the_others_nothing(site: Site, key: str) -> None:
    batch = submit(site, batching.register, key, 20, chunk_size=5, deadly="retry")
    wait_until_finished(batch, key, 20)
    again = Effect.objects.filter(key__startswith=f"{key}-", attempt=2)
    assert sorted(effect.key for effect in again) == sorted(f"{key}-{each}" for each in (1, 6, 11, 16))


@pytest.mark.usefixtures("family")
def test_an_owner_that_stood_still_in_a_record_gives_it_no_outcome(site: Site, key: str) -> None:
    batch = submit(site, batching.brief, key, 3, chunk_size=3, deadly="stand still")
    still = site.journal.wait_for("stands still", key)
    wait_until_finished(batch, key, 3)
    processes.resume(still["pid"])
    assert site.journal.wait_for("refused", key)["attempt"] == 1
    site.broker.wait_until_empty()
    wait_until_finished(batch, key, 3)


@pytest.mark.usefixtures("family")
def test_a_child_that_dies_between_the_end_of_the_last_chunk_and_that_of_the_batch(
    site: Site, key: str
) -> None:
    """Each chunk's child dies right after the commit that ends the chunk: the sweeper ends the batch."""
    batch = submit(site, batching.last, key, 4, chunk_size=2)
    wait_until_finished(batch, key, 4)
    site.broker.wait_until_empty()
    assert done(key)["finished"] == 1
