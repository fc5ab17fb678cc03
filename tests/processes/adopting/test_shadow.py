"""A worker runs a task in shadow mode beside its enforced twin: what one would refuse the other refuses."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from django_idempotent_tasks.models import DuplicateAttempt, IdempotencyKey
from django_idempotent_tasks.states import State
from tests.processes.adopting.watched import enforced, shadowed
from tests.support.waiting import eventually
from tests.support.workers.site import Site

pytestmark = pytest.mark.process

SETTINGS = {"PROJ_RESULT_BACKEND": "disabled://", "PROJ_IDEMPOTENT_TASKS": json.dumps({"LEASE": 10})}
COPIES = 3


def noted(site: Site, task: Any) -> Counter[str]:
    """How often each order was noted as a duplicate."""
    keys = IdempotencyKey.objects.using(site.rows.alias).filter(task=task.name)
    names = dict(keys.values_list("digest", "key_text"))
    rows = DuplicateAttempt.objects.using(site.rows.alias).filter(digest__in=names)
    return Counter(names[row.digest].removeprefix("order=") for row in rows)


def ran(site: Site, task: Any, orders: list[str]) -> dict[str, int]:
    """How often the body has begun for each order."""
    counts = Counter(each["key"] for each in site.journal.read(task.name))
    return {order: counts[order] for order in orders}


def test_all_duplicates_run_and_as_many_are_noted_as_the_guard_refuses(own_site: Site, key: str) -> None:
    orders = [f"{key}-{number}" for number in range(6)]
    gated, retried = f"{key}-gated", f"{key}-retried"
    tasks, every = (enforced, shadowed), [*orders, gated, retried]
    worker = own_site.worker(
        "watched", "--concurrency", "4", "--include", "tests.processes.adopting.watched", **SETTINGS
    ).start()
    for task in tasks:
        own_site.send(task, gated)
        own_site.journal.wait_for(task.name, gated)
    for order in every:
        for task in tasks:
            for _ in range(COPIES - (order == gated)):
                own_site.send(task, order)
    own_site.journal.wait_for(shadowed.name, gated, count=2)
    own_site.journal.open(gated)
    eventually(lambda: noted(own_site, shadowed) == dict.fromkeys(every, COPIES - 1), "all are noted")
    eventually(lambda: noted(own_site, enforced) == dict.fromkeys(every, COPIES - 1), "all are refused")
    eventually(lambda: ran(own_site, shadowed, [retried])[retried] == 2 * COPIES, "all are retried")
    eventually(lambda: ran(own_site, enforced, [retried])[retried] == 2, "the guard's one is retried")
    worker.terminate()
    assert worker.wait() == 0
    once, thrice = dict.fromkeys(every, 1), dict.fromkeys(every, COPIES)
    assert ran(own_site, enforced, every) == {**once, retried: 2}
    assert ran(own_site, shadowed, every) == {**thrice, retried: 2 * COPIES}
    keys = IdempotencyKey.objects.using(own_site.rows.alias)
    assert set(keys.values_list("state", flat=True)) == {State.SUCCEEDED}
    assert keys.count() == 2 * len(every)
    places = DuplicateAttempt.objects.using(own_site.rows.alias).values_list("place", flat=True)
    assert Counter(places) == {"worker": len(every) * (COPIES - 1), "shadow": len(every) * (COPIES - 1)}
