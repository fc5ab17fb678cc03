"""What another side says of when to come again: seconds or a date, bounded; nonsense is no wait."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from django_idempotent_tasks.running.retries import LONGEST_RETRY_AFTER, retry_after

NOW = datetime(2030, 1, 2, 12, 0, tzinfo=UTC)


class Busy(Exception):
    """With whatever a client's library puts on it."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__()
        vars(self).update(attributes)


class Touchy(Exception):
    """Its attributes raise."""

    @property
    def retry_after(self) -> float:
        raise RuntimeError("not yet")


def answered(value: Any) -> Busy:
    return Busy(response=SimpleNamespace(headers={"Retry-After": value}))


@pytest.mark.parametrize(
    ("asked", "seconds"),
    [
        (7, 7.0),
        (0.5, 0.5),
        ("120", 120.0),
        (timedelta(minutes=2), 120.0),
        ("Wed, 02 Jan 2030 12:01:00 GMT", 60.0),
        ("Wed, 02 Jan 2030 12:01:00 -0000", 60.0),
        ("Wed Jan  2 12:01:00 2030", 60.0),
        ("Wed, 02 Jan 2030 11:00:00 GMT", 0.0),
        (10**9, LONGEST_RETRY_AFTER),
        (timedelta(days=900), LONGEST_RETRY_AFTER),
        ("Wed, 02 Jan 2999 12:00:00 GMT", LONGEST_RETRY_AFTER),
        (-5, 0.0),
        (timedelta(seconds=-5), 0.0),
        (True, 0.0),
        (False, 0.0),
        (None, 0.0),
        ("", 0.0),
        ("soon", 0.0),
        ("nan", 0.0),
        ("inf", 0.0),
        (float("inf"), 0.0),
        (float("nan"), 0.0),
        (10**400, 0.0),
        ([3], 0.0),
        (object(), 0.0),
        (b"3\xff", 0.0),
    ],
)
def test_an_answer_is_read_or_is_no_wait(asked: Any, seconds: float) -> None:
    assert retry_after(Busy(retry_after=asked), now=NOW) == seconds
    assert retry_after(answered(asked), now=NOW) == seconds


def test_the_errors_own_word_comes_before_the_header() -> None:
    error = answered(9)
    error.retry_after = 3  # type: ignore[attr-defined]
    assert retry_after(error, now=NOW) == 3.0


@pytest.mark.parametrize(
    "error",
    [
        None,
        ValueError(),
        Touchy(),
        Busy(response=None),
        Busy(response=SimpleNamespace(headers=None)),
        Busy(response=SimpleNamespace(headers=[("Retry-After", "3")])),
    ],
    ids=repr,
)
def test_an_error_that_says_nothing_asks_for_no_wait(error: BaseException | None) -> None:
    assert retry_after(error, now=NOW) == 0.0
