"""An option of the call that could not be sent later is refused at once, by its name."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from math import inf, nan
from typing import Any

import pytest
from kombu import Exchange, Queue

from django_idempotent_tasks import ConfigurationError
from django_idempotent_tasks.models import IdempotencyKey
from tests.support.post import Post

pytestmark = pytest.mark.django_db(transaction=True, available_apps=["django_idempotent_tasks"])

Call = Callable[..., Any]
each_call_with_options = pytest.mark.parametrize(
    "call",
    [lambda task, **how: task.apply_async((7,), **how), lambda task, **how: task.submit((7,), **how)],
    ids=["apply_async", "submit"],
)


def pay(order_id: int, card: Any = None) -> None:
    """Not run here."""


def nothing_happened(post: Post) -> bool:
    return not IdempotencyKey.objects.exists() and post.arrived() == []


OPTIONS: dict[str, list[Any]] = {
    "serializer": ["nope", 5],
    "compression": ["nope", 5],
    "priority": ["high", 4.5, True],
    "countdown": [nan, inf, 1e15, "5", timedelta(seconds=5)],
    "eta": ["tomorrow", 5, datetime(9999, 12, 31, tzinfo=UTC), datetime(9999, 12, 31)],  # noqa: DTZ001
    "expires": [nan, 1e12, "tomorrow", timedelta(seconds=5), datetime(9999, 12, 31, tzinfo=UTC)],
    "queue": [Queue("q")],
    "exchange": [Exchange("x")],
    "headers": [{"tags": ...}, {"tags": {"a"}}],
    "shadow": [5j],
}


@each_call_with_options
@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in OPTIONS.items() for value in values], ids=repr
)
def test_an_option_that_cannot_be_sent_later_is_refused_by_its_name(
    post: Post, name: str, value: Any, call: Call
) -> None:
    task = post.task(pay)
    with pytest.raises(ConfigurationError, match=f"option '{name}'"):
        call(task, **{name: value})
    assert nothing_happened(post)
    task.delay(8)
    assert len(post.arrived()) == 1


@pytest.mark.filterwarnings("ignore::celery.exceptions.CDeprecationWarning")
@pytest.mark.parametrize("options", [{"serializer": "nope"}, {"priority": "high"}, {"compression": "nope"}])
def test_an_option_of_the_task_is_checked_as_well(post: Post, options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=f"option '{next(iter(options))}'"):
        post.task(pay, **options).delay(7)
    assert nothing_happened(post)


@pytest.mark.parametrize(
    "options",
    [
        {"serializer": "json", "compression": "zlib", "priority": 0, "countdown": 0, "expires": 1.5},
        {"serializer": "pickle", "compression": "application/x-gzip", "countdown": -5, "expires": -5},
        {"eta": datetime(2020, 1, 1), "expires": datetime(2050, 1, 1, tzinfo=UTC)},  # noqa: DTZ001
        {"eta": "2020-01-01", "expires": "2050-01-01T00:00:00+00:00"},
        dict.fromkeys(OPTIONS),
    ],
    ids=repr,
)
def test_an_option_that_celery_takes_is_taken(post: Post, options: dict[str, Any]) -> None:
    post.task(pay).apply_async((7,), **options)
    assert len(post.arrived()) == 1
