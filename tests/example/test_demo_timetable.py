"""The demonstration reports a periodic job that did not run, ran twice or unasked, and nothing else."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from example_project.demo.judging.timetable import Job, deviations, grid

FIRST = datetime(2026, 1, 5, 12, tzinfo=UTC)
DUE = grid(FIRST, FIRST + timedelta(seconds=7), timedelta(seconds=3))


def told(job: Job) -> list[str]:
    return list(deviations({"tidy": job}))


def test_each_time_once_is_right() -> None:
    assert len(DUE) == 3
    assert told(Job(DUE, DUE)) == []


def test_a_hole_a_second_run_and_one_that_was_not_due_are_told() -> None:
    assert told(Job(DUE, DUE[:2])) == ["tidy of 12:00:06.000000 did not run"]
    assert told(Job(DUE, (*DUE, DUE[0]))) == ["tidy of 12:00:00.000000 ran twice"]
    odd = FIRST + timedelta(seconds=1)
    assert told(Job(DUE, (*DUE, odd))) == ["tidy of 12:00:01.000000 ran, and was not due"]


def test_a_job_that_never_came_shows_nothing() -> None:
    assert told(Job((), ())) == ["tidy was never due"]
