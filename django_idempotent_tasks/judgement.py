"""Whether a failed attempt is retried: our exceptions, ``classify``, the lists, then Celery's own rules."""

from __future__ import annotations

import logging
from enum import Enum

from django.core.exceptions import ImproperlyConfigured, ValidationError

from .exceptions import ManualReview, PermanentError, TransientError
from .failure import traceback_of
from .options import Policy
from .raised import is_a, is_shutdown, name_of, shown
from .states import Category, Reason

#: Errors of the program or its arguments: what fails like that fails again. Only for what is shown.
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

logger = logging.getLogger("django_idempotent_tasks")


class Judgement(Enum):
    """What is known about an error."""

    PERMANENT = "permanent"
    TRANSIENT = "transient"
    REVIEW = "review"
    UNKNOWN = "unknown"


_OURS = (
    (PermanentError, Judgement.PERMANENT),
    (TransientError, Judgement.TRANSIENT),
    (ManualReview, Judgement.REVIEW),
)
_CATEGORIES = {
    Category.FATAL: Judgement.PERMANENT,
    Category.RETRYABLE: Judgement.TRANSIENT,
    Category.MANUAL_REVIEW: Judgement.REVIEW,
}


def judge(error: BaseException, policy: Policy) -> Judgement:
    """The first rule that knows the error."""
    for kind, judgement in _OURS:
        if is_a(error, kind):
            return judgement
    return _by_classifier(error, policy) or _by_lists(error, policy)


def category_of(error: BaseException, reason: Reason) -> Category:
    """The category that is shown of a failure; ``reason`` alone decides what happens to its key."""
    if reason is Reason.IN_DOUBT:
        return Category.MANUAL_REVIEW
    if reason in {Reason.RETRIES_USED_UP, Reason.RETRY_ASKED} and not is_a(error, *_MISTAKES):
        return Category.RETRYABLE
    return Category.FATAL


def _by_classifier(error: BaseException, policy: Policy) -> Judgement | None:
    """The project's own function; one that fails decides nothing, since the task's error matters more."""
    if policy.classify is None:
        return None
    category = None
    try:
        category = policy.classify(error)
        return None if category is None else _CATEGORIES[Category(category)]  # type: ignore[arg-type]
    except BaseException as own:
        if is_shutdown(own):
            raise
        if category is None:
            logger.error("classify failed on %s\n%s", name_of(error), traceback_of(own))  # noqa: TRY400
        else:
            logger.error("classify returned %s; return a Category or None", shown(category)[:200])  # noqa: TRY400
        return None


def _by_lists(error: BaseException, policy: Policy) -> Judgement:
    if is_a(error, *policy.permanent_errors):
        return Judgement.PERMANENT
    if is_a(error, *policy.transient_errors):
        return Judgement.TRANSIENT
    if is_a(error, *policy.review_errors):
        return Judgement.REVIEW
    return Judgement.UNKNOWN
