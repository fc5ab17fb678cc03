"""``idem prune``: counts without ``--yes``, deletes to the end with it, never what is not past its time."""

from __future__ import annotations

from typing import Any

import pytest

from django_idempotent_tasks.conf import settings as ours
from django_idempotent_tasks.ledger.stores.clock import shifted
from django_idempotent_tasks.models import (
    AnsweredCall,
    DuplicateAttempt,
    FailedJob,
    HourlyCount,
    IdempotencyKey,
    RedriveOperation,
)
from django_idempotent_tasks.operations import counts
from django_idempotent_tasks.operations.redrives import begin, stop
from django_idempotent_tasks.operations.selection import Selection
from django_idempotent_tasks.states import State
from django_idempotent_tasks.sweeper.prune import HOURLY_KEEP
from django_idempotent_tasks.testing.contract.bench import RETENTION, WINDOW
from tests.support.keys import Keys, both, facts, idem
from tests.support.ledger.crowd import fill
from tests.support.ledger.statements import postgresql_plan

pytestmark = pytest.mark.django_db(databases=["default", "sqlite"])

KINDS = (
    "succeeded",
    "cancelled",
    "failed",
    "failed_jobs",
    "answered",
    "duplicates",
    "hourly",
    "redrives",
    "batches",
    "workers",
    "cursors",
)
LATER = WINDOW + RETENTION + 10


def finished(keys: Keys, number: int) -> None:
    """Keys of every finished state, and a live one, so many of each."""
    for _ in range(number):
        keys.completed()
        keys.failed(keys.claimed())
        keys.cancelled(keys.claimed())
        assert keys.fail(keys.claimed(), state=State.REVIEW)
        keys.claimed()


def left(keys: Keys) -> dict[str, int]:
    """How many keys are left in which state."""
    rows = IdempotencyKey.objects.using(keys.alias)
    return {state.name: n for state in State if (n := rows.filter(state=state).count())}


@both
def test_without_yes_it_counts_what_is_past_its_time_and_deletes_nothing(keys: Keys) -> None:
    finished(keys, 2)
    before = left(keys)
    assert all(each["count"] == 0 for each in facts(keys, "prune")[1]["past_their_time"].values())
    with shifted(LATER):
        code, seen = facts(keys, "prune")
    found = {name: each["count"] for name, each in seen["past_their_time"].items()}
    assert (code, found) == (
        0,
        dict.fromkeys(KINDS, 0) | {"succeeded": 2, "failed": 2, "cancelled": 2},
    )
    assert left(keys) == before


@both
def test_it_deletes_to_the_end_whatever_the_bite_and_leaves_review_and_the_living(keys: Keys) -> None:
    finished(keys, 5)
    with shifted(LATER):
        code, seen = facts(keys, "prune", "--yes", "--bite", 2, "--pause", 0)
    assert (code, seen["more"]) == (0, False)
    assert {name: seen["deleted"][name] for name in ("succeeded", "failed", "cancelled")} == {
        "succeeded": 5,
        "failed": 5,
        "cancelled": 5,
    }
    assert left(keys) == {"REVIEW": 5, "RUNNING": 5}


@both
def test_what_is_not_past_its_time_stays(keys: Keys) -> None:
    finished(keys, 2)
    before = left(keys)
    assert sum(facts(keys, "prune", "--yes")[1]["deleted"].values()) == 0
    assert left(keys) == before


@both
def test_answers_and_summed_duplicates_go_as_well(keys: Keys) -> None:
    claim = keys.completed(retention=0)
    later = keys.claimed_anew(keys.call("B", of=claim.call))
    keys.store().record_duplicate(later.call, place="worker", reason="in_progress")
    keys.store().sum_duplicates(bite=9)
    with shifted(max(LATER, ours().retention + 10)):
        planned = facts(keys, "prune")[1]["past_their_time"]
        deleted = facts(keys, "prune", "--yes")[1]["deleted"]
    assert [planned[name]["count"] for name in ("answered", "duplicates")] == [1, 1]
    assert [deleted[name] for name in ("answered", "duplicates")] == [1, 1]
    assert not AnsweredCall.objects.using(keys.alias).exists()
    assert not DuplicateAttempt.objects.using(keys.alias).exists()


@both
def test_the_dry_run_counts_every_kind_that_the_real_run_deletes(keys: Keys) -> None:
    planned = facts(keys, "prune")[1]["past_their_time"]
    deleted = facts(keys, "prune", "--yes")[1]["deleted"]
    assert (tuple(planned), tuple(deleted)) == (KINDS, KINDS)


@both
def test_redrives_that_have_ended_and_hourly_counts_are_counted_and_go_in_their_own_time(keys: Keys) -> None:
    running, stopped = (begin(Selection(), by="ann", reason="why", alias=keys.alias) for _ in range(2))
    assert stop(stopped, by="ann", alias=keys.alias)
    numbers = dict.fromkeys(("created", "succeeded", "failed", "duplicates", "crashes"), 1)
    HourlyCount.objects.using(keys.alias).create(hour=stopped.created_at, task="shop.charge", **numbers)
    assert ours().dead_letter_retention == HOURLY_KEEP
    for early, number in ((100, 0), (-100, 1)):
        with shifted(HOURLY_KEEP - early):
            planned = facts(keys, "prune")[1]["past_their_time"]
            deleted = facts(keys, "prune", "--yes")[1]["deleted"]
        assert [planned[name]["count"] for name in ("redrives", "hourly")] == [number, number]
        assert [deleted[name] for name in ("redrives", "hourly")] == [number, number]
    assert list(RedriveOperation.objects.using(keys.alias)) == [running]


@both
def test_failed_jobs_go_as_well_in_their_own_time(keys: Keys) -> None:
    keys.failed(keys.claimed())
    for early, number in ((10, 0), (-10, 1)):
        with shifted(ours().dead_letter_retention - early):
            assert facts(keys, "prune")[1]["past_their_time"]["failed_jobs"]["count"] == number
            assert facts(keys, "prune", "--yes")[1]["deleted"]["failed_jobs"] == number
    assert not FailedJob.objects.using(keys.alias).exists()


def test_it_stops_at_max_seconds_after_one_bite_and_says_that_more_is_left() -> None:
    keys = Keys("default")
    finished(keys, 5)
    with shifted(LATER):
        _, seen = facts(keys, "prune", "--yes", "--bite", 2, "--max-seconds", 0)
        assert (seen["more"], seen["deleted"]["succeeded"]) == (True, 2)
        text = idem("prune", "--yes", "--bite", 2, "--max-seconds", 0)[1]
        assert "Stopped at --max-seconds; more is left." in text


def test_it_pauses_between_bites_and_not_after_the_last(monkeypatch: Any) -> None:
    keys = Keys("default")
    finished(keys, 5)
    pauses: list[float] = []
    monkeypatch.setattr("time.sleep", pauses.append)
    with shifted(LATER):
        facts(keys, "prune", "--yes", "--bite", 2, "--pause", 0.25)
    assert pauses == [0.25, 0.25]


@both
def test_more_than_one_count_looks_at_is_told_as_a_bound(keys: Keys, monkeypatch: Any) -> None:
    monkeypatch.setattr(counts, "CAP", 3)
    finished(keys, 4)
    with shifted(LATER):
        text = idem("prune", "--database", keys.alias)[1]
    assert "at least 3 succeeded, at least 3 cancelled, at least 3 failed, 0 failed jobs" in text


@pytest.mark.postgresql
def test_the_dry_run_reads_ranges_of_indexes_only() -> None:
    fill("default")
    plan = postgresql_plan(lambda _: idem("prune"))
    # Persons make redrives, beat a cursor for each entry, and each worker one row: these tables are small.
    small = ("redriveoperation", "beatcursor", "worker")
    large = [access for access in plan if not access.table.endswith(small)]
    assert {access.node for access in large} <= {"Index Scan", "Index Only Scan"}
