"""Headers within headers, as tracers leave them, hide no identity from real workers."""

from __future__ import annotations

from typing import Any

import pytest

from django_idempotent_tasks.states import State
from tests.sample import atomic, endings, reserving
from tests.support.workers.reserving import sending_to
from tests.support.workers.site import Site

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("pair")]

NESTED: dict[str, Any] = {"headers": {"sentry-trace": "0-0", "baggage": "x=1"}}


def test_calls_with_keys_of_their_own_run_once_each_under_them(site: Site, key: str) -> None:
    for task in (reserving.enduring, atomic.brief):
        for number in (1, 2):
            options = {"headers": NESTED, "idempotency_key": f"key={key}-{task.name}-{number}"}
            site.send(task, key, options=options)
        for number in (1, 2):
            row = site.rows.wait_for(f"{key}-{task.name}-{number}", State.SUCCEEDED)
            assert (row.attempts, row.duplicates) == (1, 0)
    assert site.rows.count() == 4


def test_a_reserved_call_is_claimed_and_not_left_to_the_sweeper(site: Site, key: str) -> None:
    with sending_to(site):
        reserving.ordering.apply_async((key,), headers=NESTED, idempotency_key=f"key={key}-own", scope="t")
        row = site.rows.wait_for(f"{key}-own", State.SUCCEEDED)
    assert (row.attempts, row.scope, site.rows.count()) == (1, "t", 1)


def test_its_retries_are_attempts_of_the_same_key(site: Site, key: str) -> None:
    site.send(endings.retried, key, "self", options={"headers": NESTED, "idempotency_key": f"key={key}-own"})
    row = site.rows.wait_for(f"{key}-own", State.SUCCEEDED)
    assert (row.attempts, site.rows.count()) == (3, 1)
