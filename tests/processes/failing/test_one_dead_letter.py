"""Each way to fail for good: one dead letter that tells why, and one record for each attempt."""

from __future__ import annotations

import pytest

from django_idempotent_tasks.models import DeadLetter, FailedJob
from django_idempotent_tasks.states import Category, Reason, State
from tests.sample import failures
from tests.support.workers.processes import Worker
from tests.support.workers.site import Site

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("crew")]


def told(site: Site, key: str) -> list[tuple[int, str, State]]:
    """The attempt, the error's class and where the key went, for each failed attempt."""
    jobs = site.rows.failed(key)
    return [(job.attempt, job.error.rpartition(".")[2], State(job.state)) for job in jobs]


def is_dead_letter(site: Site, key: str) -> bool:
    return DeadLetter.objects.using(site.rows.alias).filter(key_text=f"key={key}").count() == 1


def test_used_up_retries_are_one_dead_letter_and_a_record_for_each_attempt(site: Site, key: str) -> None:
    site.send(failures.working, key, ["fail"] * 9)
    row = site.rows.wait_for(key, State.FAILED)
    assert (row.reason, row.category, row.attempts) == (Reason.RETRIES_USED_UP, Category.RETRYABLE, 3)
    assert told(site, key) == [
        (1, "Trouble", State.RETRY),
        (2, "Trouble", State.RETRY),
        (3, "Trouble", State.FAILED),
    ]
    jobs = site.rows.failed(key)
    assert {job.signature for job in jobs} == {row.signature}
    assert {job.worker for job in jobs} == {"crew@tests"}
    assert "raise Trouble" in jobs[-1].traceback
    assert is_dead_letter(site, key)


@pytest.mark.parametrize(
    ("deed", "state", "reason", "category"),
    [
        ("permanent", State.FAILED, Reason.PERMANENT, Category.FATAL),
        ("review", State.REVIEW, Reason.IN_DOUBT, Category.MANUAL_REVIEW),
    ],
)
def test_what_is_not_retried_is_a_dead_letter_at_once(
    site: Site, key: str, deed: str, state: State, reason: Reason, category: Category
) -> None:
    site.send(failures.working, key, [deed])
    row = site.rows.wait_for(key, state)
    assert (row.reason, row.category, row.attempts) == (reason, category, 1)
    assert [where for _, _, where in told(site, key)] == [state]
    assert is_dead_letter(site, key)


def test_poison_is_a_dead_letter_with_a_record_of_each_death(site: Site, key: str) -> None:
    site.send(failures.working, key, ["die"] * 9)
    row = site.rows.wait_for(key, State.FAILED, within=60)
    assert (row.reason, row.category, row.crashes) == (Reason.POISON, Category.FATAL, 3)
    assert [(error, where) for _, error, where in told(site, key)] == [
        *[("WorkerLostError", State.RETRY)] * 3,
        ("PoisonTask", State.FAILED),
    ]
    assert site.journal.starts(key) == 3


def test_a_death_between_a_failure_and_its_record_undoes_both(site: Site, key: str) -> None:
    site.send(failures.working, key, ["fail and die at the record", "permanent"])
    site.rows.wait_for(key, State.FAILED)
    assert told(site, key) == [(1, "WorkerLostError", State.RETRY), (2, "PermanentError", State.FAILED)]
    assert [job.token for job in site.rows.failed(key)] == [1, 3]


def test_a_death_behind_a_failure_and_its_record_leaves_one_dead_letter(
    site: Site, crew: Worker, key: str
) -> None:
    site.send(failures.working, key, ["fail and die behind the record"])
    site.rows.wait_for(key, State.FAILED)
    site.broker.wait_until_empty()
    crew.wait_for_log("RecordedError")  # the copy that the dead child left was answered, not run
    assert told(site, key) == [(1, "PermanentError", State.FAILED)]
    assert (site.rows.row(key).state, site.journal.starts(key)) == (State.FAILED, 1)
    assert FailedJob.objects.using(site.rows.alias).filter(task_id=site.rows.row(key).task_id).count() == 1
