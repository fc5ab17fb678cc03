"""Decides what an error means for its call: our exceptions, ``classify``, the lists, then Celery's rules."""

from __future__ import annotations

import logging

from django.core.exceptions import ImproperlyConfigured, ValidationError

from ..conf.options import Policy
from ..errors.raised import is_a, is_shutdown, name_of, shown
from ..exceptions import ManualReview, PermanentError, TransientError
from ..ledger.failures import traceback_of
from ..states import Category, Reason

#: Errors of the program or its arguments, which another run would raise again. Only for what is shown.
_MISTAKES = (
    TypeError,
    AttributeError,
    NameError,
    ImportError,
    NotImplementedError,
    AssertionError,
    SyntaxError,
    ValidationError,
    ImproperlyConfigured,
)

#: The categories that end a key without a further attempt, and the reason of each.
FINAL: dict[Category | None, Reason] = {
    Category.FATAL: Reason.PERMANENT,
    Category.MANUAL_REVIEW: Reason.IN_DOUBT,
    Category.EXPECTED: Reason.EXPECTED,
}
#: Categories of errors that say for certain what became of an effect of ``external()``.
CERTAIN = frozenset({Category.FATAL, Category.EXPECTED})

logger = logging.getLogger("django_idempotent_tasks")


_OURS = (
    (PermanentError, Category.FATAL),
    (TransientError, Category.RETRYABLE),
    (ManualReview, Category.MANUAL_REVIEW),
)


def category_of_error(error: BaseException, policy: Policy) -> Category | None:
    """The category by the first rule that knows the error; None leaves the error to Celery's own rules."""
    for kind, category in _OURS:
        if is_a(error, kind):
            return category
    return _by_classifier(error, policy) or _by_lists(error, policy)


def is_thrown(error: BaseException, policy: Policy) -> bool:
    """Whether Celery's own ``throws`` names the error. It stops no retry: ask it where none is left."""
    return is_a(error, *policy.throws)


def category_shown(error: BaseException, reason: Reason) -> Category:
    """The category that is shown of a failure; ``reason`` alone decides what happens to its key."""
    if reason is Reason.IN_DOUBT:
        return Category.MANUAL_REVIEW
    if reason is Reason.EXPECTED:
        return Category.EXPECTED
    if reason in {Reason.RETRIES_USED_UP, Reason.RETRY_ASKED} and not is_a(error, *_MISTAKES):
        return Category.RETRYABLE
    return Category.FATAL


def _by_classifier(error: BaseException, policy: Policy) -> Category | None:
    """The answer of the project's ``classify``; a ``classify`` that fails is logged and decides nothing."""
    if policy.classify is None:
        return None
    category = None
    try:
        category = policy.classify(error)
        return None if category is None else Category(category)  # type: ignore[arg-type]
    except BaseException as own:
        if is_shutdown(own):
            raise
        if category is None:
            logger.error("classify failed on %s\n%s", name_of(error), traceback_of(own))  # noqa: TRY400
        else:
            logger.error("classify returned %s; return a Category or None", shown(category)[:200])  # noqa: TRY400
        return None


def _by_lists(error: BaseException, policy: Policy) -> Category | None:
    lists = (
        (policy.permanent_errors, Category.FATAL),
        (policy.transient_errors, Category.RETRYABLE),
        (policy.review_errors, Category.MANUAL_REVIEW),
        (policy.expected_errors, Category.EXPECTED),
    )
    return next((category for kinds, category in lists if is_a(error, *kinds)), None)
