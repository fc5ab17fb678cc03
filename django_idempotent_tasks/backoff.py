"""How long a retry waits: as the call says, or by the task's own Celery options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from celery.utils.time import get_exponential_backoff_interval

from .durations import LONGEST


def delay_of(options: Mapping[str, Any], *, now: Callable[[], datetime]) -> float:
    """Seconds until the ``countdown`` or ``eta`` among sending options; 0 without either."""
    countdown = options.get("countdown")
    if countdown:
        return _bounded(float(countdown))
    eta = options.get("eta")
    if not eta:
        return 0.0
    moment = datetime.fromisoformat(eta) if isinstance(eta, str) else eta
    reference = now()
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=reference.tzinfo)
    return _bounded((moment - reference).total_seconds())


def _bounded(seconds: float) -> float:
    """No time that a date column cannot hold."""
    return min(max(seconds, 0.0), float(LONGEST))


def retry_options(task: Any, retries: int) -> dict[str, Any]:
    """What to ask ``Task.retry`` for: ``retry_kwargs``, and the delay as Celery's autoretry computes it."""
    options = dict(getattr(task, "retry_kwargs", None) or {})
    factor = float(getattr(task, "retry_backoff", False))
    if factor:
        options["countdown"] = get_exponential_backoff_interval(
            factor=int(max(1.0, factor)),
            retries=retries,
            maximum=int(getattr(task, "retry_backoff_max", 600)),
            full_jitter=bool(getattr(task, "retry_jitter", True)),
        )
    return options
