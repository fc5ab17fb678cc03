"""Two identical calls, two workers: one body, and the other caller gets the documented answer."""

from __future__ import annotations

from typing import Any

import pytest

from django_idempotent_tasks import DuplicateTask
from django_idempotent_tasks.states import State
from tests.processes.prefork.verdicts import assert_ran_once
from tests.sample import endings, tasks
from tests.support.results import result_of
from tests.support.workers.site import Site

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("pair")]


def call_twice(site: Site, task: Any, key: str) -> tuple[str, str]:
    """Two identical calls at once, which both workers take; the ids of the one that runs and of the other."""
    calls = [site.send(task, key, gated=True).id for _ in range(2)]
    runs = site.journal.started(key)["task_id"]
    return runs, next(call for call in calls if call != runs)


def test_skip_answers_at_once_and_names_the_call_that_runs(site: Site, key: str) -> None:
    runs, duplicate = call_twice(site, tasks.skipping, key)

    assert result_of(duplicate) == {
        "status": "skipped",
        "reason": "in_progress",
        "key": f"key={key}",
        "task_id": runs,
    }
    site.journal.open(f"{key}.1")
    assert result_of(runs) == {"key": key, "attempt": 1}
    assert_ran_once(site, key)
    assert site.rows.refusals(key) == ["in_progress"]


def test_replay_waits_for_the_result_of_the_call_that_runs(site: Site, key: str) -> None:
    runs, duplicate = call_twice(site, tasks.replaying, key)
    site.journal.open(f"{key}.1")

    assert result_of(duplicate) == result_of(runs) == {"key": key, "attempt": 1}
    assert_ran_once(site, key)


def test_raise_tells_the_caller_by_an_error(site: Site, key: str) -> None:
    runs, duplicate = call_twice(site, tasks.raising, key)

    error = result_of(duplicate)
    assert isinstance(error, DuplicateTask)
    assert runs in str(error)
    site.journal.open(f"{key}.1")
    assert result_of(runs) == {"key": key, "attempt": 1}
    assert_ran_once(site, key)


@pytest.mark.parametrize("task", ["skipping", "raising"])
def test_a_call_after_the_end_is_refused_as_already_completed(site: Site, key: str, task: str) -> None:
    first = site.send(getattr(tasks, task), key).id
    site.rows.wait_for(key, State.SUCCEEDED)

    answer = result_of(site.send(getattr(tasks, task), key).id)
    assert first in (answer["task_id"] if task == "skipping" else str(answer))
    assert site.rows.refusals(key) == ["already_completed"]
    assert_ran_once(site, key)


def test_a_retry_that_is_due_and_a_new_call_do_not_both_run(site: Site, key: str) -> None:
    site.send(endings.retried, key, "self", gated=True)
    site.journal.started(key)
    duplicates = [site.send(endings.retried, key, "self", gated=True).id for _ in range(3)]
    site.journal.open(f"{key}.1", f"{key}.2", f"{key}.3")

    for duplicate in duplicates:
        assert result_of(duplicate)["status"] == "skipped"
    assert site.rows.wait_for(key, State.SUCCEEDED).attempts == 3
    assert len(site.rows.effects(key)) == 1
