"""How long a retry waits: as the call says, or by the task's own Celery options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from celery.utils.time import get_exponential_backoff_interval


def delay_of(options: Mapping[str, Any], *, now: Callable[[], datetime]) -> float:
    """Seconds until the ``countdown`` or ``eta`` among sending options; 0 without either."""
    countdown = options.get("countdown")
    if countdown:
        return max(float(countdown), 0.0)
    eta = options.get("eta")
    if not eta:
        return 0.0
    moment = datetime.fromisoformat(eta) if isinstance(eta, str) else eta
    reference = now()
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=reference.tzinfo)
    return max((moment - reference).total_seconds(), 0.0)


def retry_delay(task: Any, retries: int) -> float:
    """Seconds before the next retry by ``retry_backoff`` and its companions, else ``default_retry_delay``."""
    factor = float(getattr(task, "retry_backoff", False))
    if not factor:
        return float(task.default_retry_delay)
    interval = get_exponential_backoff_interval(
        factor=int(max(1.0, factor)),
        retries=retries,
        maximum=int(getattr(task, "retry_backoff_max", 600)),
        full_jitter=bool(getattr(task, "retry_jitter", True)),
    )
    return float(interval)
