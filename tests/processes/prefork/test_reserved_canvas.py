"""A canvas of reserving tasks finishes with real values, also where a member was accepted before."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from celery import chain, chord, group
from django.db import connections, transaction

from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.states import State
from tests.processes.prefork.verdicts import assert_ran_once
from tests.support.waiting import PATIENCE
from tests.support.workers.reserving import charge, collect, replaced, strict, working
from tests.support.workers.site import Site

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("_worker", "_sending")]


@pytest.fixture(scope="module")
def _worker(own_site: Site) -> Iterator[None]:
    with working(own_site, "canvas", concurrency=2):
        yield


def value(key: str) -> dict[str, Any]:
    """What ``charge`` returns for a key."""
    return {"key": key, "attempt": 1}


def test_a_chain_runs_each_of_its_tasks_once(own_site: Site, key: str) -> None:
    keys = [f"{key}-{number}" for number in range(3)]
    head: Any = chain(*(charge.si(each) for each in keys), collect.s(key=key)).apply_async()
    assert head.get(timeout=PATIENCE) == value(keys[-1])
    assert_ran_once(own_site, *keys, key)
    rows = IdempotencyKey.objects.using(own_site.rows.alias)
    assert rows.count() == 4


def test_a_chain_goes_on_past_a_head_that_was_done_before(own_site: Site, key: str) -> None:
    first = charge.delay(f"{key}-head")
    own_site.rows.wait_for(f"{key}-head", State.SUCCEEDED)
    result = chain(charge.si(f"{key}-head"), collect.s(key=key)).apply_async()
    assert result.get(timeout=PATIENCE) == value(f"{key}-head")
    assert first.get(timeout=PATIENCE) == value(f"{key}-head")
    assert_ran_once(own_site, f"{key}-head", key)


@pytest.mark.parametrize("task", [charge, strict], ids=["skip", "raise"])
def test_a_chain_ends_with_the_value_of_what_was_done_before(own_site: Site, key: str, task: Any) -> None:
    last = f"{key}-last"
    task.delay(last)
    own_site.rows.wait_for(last, State.SUCCEEDED)
    result = chain(charge.si(f"{key}-head"), task.si(last)).apply_async()
    assert result.get(timeout=PATIENCE) == value(last)
    assert_ran_once(own_site, f"{key}-head", last)


def test_a_chain_ends_with_the_value_of_what_another_call_runs_now(own_site: Site, key: str) -> None:
    last = f"{key}-last"
    strict.delay(last, gated=True)
    own_site.journal.started(last)
    result = chain(charge.si(f"{key}-head"), strict.si(last)).apply_async()
    own_site.rows.wait_for(f"{key}-head", State.SUCCEEDED)
    own_site.journal.open(f"{last}.1")
    assert result.get(timeout=PATIENCE) == value(last)
    assert_ran_once(own_site, f"{key}-head", last)


def test_a_task_that_is_replaced_by_what_was_done_before_has_its_value(own_site: Site, key: str) -> None:
    done = f"{key}-done"
    strict.delay(done)
    own_site.rows.wait_for(done, State.SUCCEEDED)
    assert replaced.delay(done).get(timeout=PATIENCE) == value(done)
    assert_ran_once(own_site, done)


def test_the_body_of_a_chord_that_was_done_before_has_its_value(own_site: Site, key: str) -> None:
    one, body = f"{key}-1", f"{key}-body"
    strict.delay(body)
    own_site.rows.wait_for(body, State.SUCCEEDED)
    result = chord([charge.si(one)], strict.si(body)).apply_async()
    assert result.get(timeout=PATIENCE) == value(body)
    assert_ran_once(own_site, one, body)


def test_a_chain_waits_for_a_head_that_another_call_runs_now(own_site: Site, key: str) -> None:
    charge.delay(f"{key}-head", gated=True)
    own_site.journal.started(f"{key}-head")
    result = chain(charge.si(f"{key}-head"), collect.s(key=key)).apply_async()
    own_site.journal.open(f"{key}-head.1")
    assert result.get(timeout=PATIENCE) == value(f"{key}-head")
    assert_ran_once(own_site, f"{key}-head", key)


def test_a_group_with_a_duplicate_member_has_every_value(own_site: Site, key: str) -> None:
    one, two = f"{key}-1", f"{key}-2"
    result: Any = group(charge.si(one), charge.si(two), charge.si(one)).apply_async()
    assert result.get(timeout=PATIENCE) == [value(one), value(two), value(one)]
    assert_ran_once(own_site, one, two)


def test_a_chord_with_a_duplicate_member_finishes_with_real_values(own_site: Site, key: str) -> None:
    one, two = f"{key}-1", f"{key}-2"
    body = chord([charge.si(one), charge.si(two), charge.si(one)], collect.s(key=key)).apply_async()
    assert body.get(timeout=PATIENCE) == [value(one), value(two), value(one)]
    assert_ran_once(own_site, one, two, key)


def test_a_chord_whose_members_were_all_done_before_finishes(own_site: Site, key: str) -> None:
    members = [f"{key}-1", f"{key}-2"]
    for member in members:
        charge.delay(member)
        own_site.rows.wait_for(member, State.SUCCEEDED)
    body = chord([charge.si(member) for member in members], collect.s(key=key)).apply_async()
    assert body.get(timeout=PATIENCE) == [value(member) for member in members]
    assert_ran_once(own_site, *members, key)


def test_a_chord_made_in_a_transaction_runs_after_its_commit(own_site: Site, key: str) -> None:
    one = f"{key}-1"
    with transaction.atomic(using=own_site.rows.alias):
        body = chord([charge.si(one), charge.si(one)], collect.s(key=key)).apply_async()
        assert own_site.broker.is_empty()
    assert body.get(timeout=PATIENCE) == [value(one), value(one)]
    assert_ran_once(own_site, one, key)


def test_a_callback_of_a_duplicate_is_called(own_site: Site, key: str) -> None:
    charge.delay(f"{key}-1")
    charge.apply_async((f"{key}-1",), link=collect.s(key=key))
    assert own_site.rows.wait_for(key, State.SUCCEEDED).attempts == 1
    assert own_site.rows.stored(key) == value(f"{key}-1")
    connections[own_site.rows.alias].close()
