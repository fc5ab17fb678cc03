"""A task that is replaced completes its key, and what takes its place runs once."""

from __future__ import annotations

import pytest
from celery import chain

from django_idempotent_tasks.states import Reason, State
from tests.processes.canvas import tasks
from tests.processes.canvas.conftest import Arena

pytestmark = pytest.mark.process


@pytest.mark.parametrize("mode", ["leased", "atomic"])
def test_a_message_that_comes_again_after_its_task_was_replaced_has_no_effect(
    arena: Arena, mode: str
) -> None:
    site, key = arena.site, f"{mode}-again"
    message = site.park(tasks.becomes_part[mode], key)
    for redelivered in (None, True, True):
        site.broker.deliver(message, redelivered=redelivered)
        site.rows.wait_for(f"{key}-new", State.SUCCEEDED)
        site.broker.wait_until_empty()
    assert [len(site.rows.effects(each)) for each in (key, f"{key}-new")] == [1, 1]
    row, new = site.rows.row(key), site.rows.row(f"{key}-new")
    assert (row.state, row.reason) == (State.SUCCEEDED, Reason.REPLACED)
    assert row.task_id == new.task_id


def test_a_task_that_is_replaced_by_a_call_of_its_own_key_goes_on_with_it(arena: Arena) -> None:
    site, key = arena.site, "paging"
    end = tasks.collect["leased"].s(key=f"{key}-end")
    site.send(tasks.start, chain(tasks.paging.si(key), end))
    told = site.journal.wait_for("collected", f"{key}-end")
    assert told["values"] == f"{key} of 3 pages"
    pages = site.journal.read("page", key)
    assert [page["page"] for page in pages] == [1, 2, 3]
    assert len({page["task_id"] for page in pages}) == 1
    row = site.rows.row(key)
    assert (row.state, row.reason, row.attempts) == (State.SUCCEEDED, Reason.DONE, 3)
