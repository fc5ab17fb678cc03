"""What callers get to see through the result backend."""

from __future__ import annotations

from typing import Any

from tests.sample.celery import app
from tests.support.waiting import eventually


def result_of(task_id: str, *, within: float = 30.0) -> Any:
    """Wait until a call has ended, and return its result or its error."""
    result = app.AsyncResult(task_id)
    eventually(
        lambda: result.state in {"SUCCESS", "FAILURE", "REVOKED", "IGNORED"},
        f"{task_id} ended",
        within=within,
    )
    return result.result
