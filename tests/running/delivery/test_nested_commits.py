"""A guarded task that runs inside a block of another one, or in a hook of its commit, commits its own."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import transaction

from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.states import State
from tests.running.delivery.test_one_message import completing, each_part
from tests.support.deliveries import ALIASES, APPS
from tests.support.till import Counter, Till

pytestmark = [
    pytest.mark.postgresql,
    pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS),
]


@each_part
def test_a_guarded_task_that_a_hook_of_the_commit_runs_commits_its_own(
    till: Till, postgresql: Counter, part: Any
) -> None:
    inner = completing(till, postgresql)

    def run_behind() -> None:
        transaction.on_commit(lambda: inner.apply(args=[8]).get(), using=postgresql.alias)

    assert till.deliver(part(till, postgresql, run_behind), 7).error is None
    states = IdempotencyKey.objects.using(postgresql.alias).values_list("state", flat=True)
    assert ([*states], len(postgresql.effects)) == ([State.SUCCEEDED] * 2, 2)


def test_a_guarded_task_that_a_block_runs_completes_its_own_key_there(
    till: Till, postgresql: Counter
) -> None:
    @till.guarded(mode="leased")
    def inner(self: Any, order: int) -> int:  # noqa: ARG001
        return order

    outer = completing(till, postgresql, lambda: inner.apply(args=[8]).get())
    till.deliver(outer, 7)
    states = IdempotencyKey.objects.using(postgresql.alias).values_list("state", flat=True)
    assert [*states] == [State.SUCCEEDED] * 2
