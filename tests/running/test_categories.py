"""The order in which rules about an error are asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from celery import Celery

from django_idempotent_tasks import (
    Category,
    IdempotentTask,
    ManualReview,
    PermanentError,
    TransientError,
)
from django_idempotent_tasks.conf.options import Policy
from django_idempotent_tasks.running.categories import category_of_error


def policy(**options: Any) -> Policy:
    app = Celery("judgement", broker="memory://", set_as_current=False)

    @app.task(base=IdempotentTask, shared=False, name="j", **options)
    def task(x: int) -> int:
        return x

    created: Any = app.tasks["j"]
    found: Policy = created.idempotency_policy
    return found


@pytest.mark.parametrize(
    ("error", "category"),
    [
        (PermanentError(), Category.FATAL),
        (TransientError(), Category.RETRYABLE),
        (ManualReview(), Category.MANUAL_REVIEW),
        (KeyError(), None),
    ],
)
def test_our_exceptions_speak_for_themselves(error: Exception, category: Category | None) -> None:
    assert category_of_error(error, policy()) is category


def test_our_exceptions_win_over_classify_and_classify_over_the_lists() -> None:
    rules = policy(classify=lambda _error: Category.MANUAL_REVIEW, permanent_errors=(KeyError,))
    assert category_of_error(PermanentError(), rules) is Category.FATAL
    assert category_of_error(KeyError(), rules) is Category.MANUAL_REVIEW


def test_each_list_judges_its_classes() -> None:
    rules = policy(permanent_errors=KeyError, transient_errors=(OSError,), review_errors=(ValueError,))
    judged = [
        category_of_error(error, rules) for error in (KeyError(), TimeoutError(), ValueError(), TypeError())
    ]
    assert judged == [Category.FATAL, Category.RETRYABLE, Category.MANUAL_REVIEW, None]


def _raises(_error: BaseException) -> Category:
    raise ZeroDivisionError


@pytest.mark.parametrize(
    "classify", [_raises, lambda _error: None, lambda _error: "FATAL", lambda _error: 99]
)
def test_a_classifier_that_fails_or_knows_nothing_leaves_it_to_the_lists(
    classify: Callable[[BaseException], Any],
) -> None:
    assert (
        category_of_error(KeyError(), policy(classify=classify, permanent_errors=(KeyError,)))
        is Category.FATAL
    )
