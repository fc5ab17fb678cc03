"""A redrive of thousands while workers die and people stop it: each key once, and the counts exact."""

from __future__ import annotations

import json
import time
from datetime import timedelta
from typing import Any

import pytest
from django.db.models import Count

from django_idempotent_tasks.ledger.moments import database_now
from django_idempotent_tasks.ledger.stores import get_store
from django_idempotent_tasks.messages.header import to_header
from django_idempotent_tasks.messages.message import HEADER, Message
from django_idempotent_tasks.models import DeadLetter, IdempotencyKey, OperationState, RedriveOperation
from django_idempotent_tasks.operations.redrives import begin, stop
from django_idempotent_tasks.operations.selection import Selection
from django_idempotent_tasks.states import Category, Reason, State
from tests.sample import failures
from tests.sample.models import Effect
from tests.support.waiting import eventually
from tests.support.workers.site import Site

pytestmark = [pytest.mark.process, pytest.mark.slow]

RATE = 200


def bury(site: Site, count: int) -> None:
    """Write so many dead letters of one kind, as failures would have left them."""
    now = database_now(get_store(site.rows.alias))
    rows = [_dead(f"k{number}", now) for number in range(count)]
    IdempotencyKey.objects.using(site.rows.alias).bulk_create(rows, batch_size=1000)


def _dead(key: str, now: Any) -> IdempotencyKey:
    task, task_id = failures.light, f"call-{key}"
    identity = task.idempotency_identity((key,), {}, task_id=task_id)
    header = to_header(identity, task_name=task.name, task_id=task_id)
    options = {"task_id": task_id, "headers": {HEADER: header}, "retries": 2}
    return IdempotencyKey(
        digest=identity.digest,
        due_at=now + timedelta(days=90),
        created_at=now,
        finished_at=now,
        token=3,
        generation=1,
        lease_seconds=2,
        duplicates=0,
        state=State.FAILED,
        reason=Reason.RETRIES_USED_UP,
        attempts=3,
        crashes=1,
        sends=0,
        in_external=False,
        task=task.name,
        key_text=identity.key_text,
        task_id=task_id,
        category=Category.RETRYABLE,
        signature="0123456789abcdef",
        message=Message.of(task.name, (key,), {}, options).encode(limit=10_000),
    )


def states(site: Site) -> dict[int, int]:
    """How many keys are in each state."""
    found = IdempotencyKey.objects.using(site.rows.alias).values_list("state").annotate(n=Count("digest"))
    return dict(found)


def looked_at(site: Site, operation: RedriveOperation) -> int:
    operation.refresh_from_db(using=site.rows.alias)
    return operation.redriven + operation.skipped


def has_ended(site: Site, operation: RedriveOperation) -> bool:
    operation.refresh_from_db(using=site.rows.alias)
    return operation.state != OperationState.RUNNING


@pytest.mark.parametrize("keys", [5_000, pytest.param(100_000, marks=pytest.mark.long)])
def test_thousands_are_redriven_once_each_whatever_is_killed_and_stopped(own_site: Site, keys: int) -> None:
    site, alias = own_site, own_site.rows.alias
    patience = 120 + 3 * keys / RATE
    bury(site, keys)
    first = begin(Selection(), by="ann", reason="mended", rate=RATE, alias=alias)
    began = time.monotonic()
    soon = {"PROJ_IDEMPOTENT_TASKS": json.dumps({"REPUBLISH_AFTER": 10})}
    with site.running("doomed", "--concurrency", "2", **soon):
        eventually(lambda: looked_at(site, first) > keys // 5, "a fifth", within=patience)
    with site.running("next", "--concurrency", "2", **soon):  # the dead one had taken messages
        eventually(lambda: looked_at(site, first) > keys // 2, "half", within=patience)
        assert stop(first, by="bob", alias=alias) is True
        first.refresh_from_db(using=alias)
        second = begin(Selection(), by="ann", reason="go on", rate=RATE, alias=alias)
        eventually(lambda: has_ended(site, second), "the rest", within=patience)
        took = time.monotonic() - began
        eventually(
            lambda: states(site) == {State.SUCCEEDED: keys}, "every success", within=patience, every=0.5
        )
    print(f"{keys} keys at {RATE} a second: {took:.1f} s")

    assert (first.state, second.state) == (OperationState.STOPPED, OperationState.DONE)
    assert (first.redriven + second.redriven, first.skipped, second.skipped) == (keys, 0, 0)
    assert took >= keys / RATE * 0.9
    effects = Effect.objects.using(alias)
    assert effects.count() == keys
    assert not effects.values("key").annotate(n=Count("id")).filter(n__gt=1).exists()
    assert DeadLetter.objects.using(alias).count() == 0
