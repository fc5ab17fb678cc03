"""``SYNC_FALLBACK``: the caller runs what it sends, under the same key, while the broker is out for good."""

from __future__ import annotations

from typing import Any

from ..conf import settings
from ..messages.message import Message


def runs_here() -> bool:
    """Whether calls are run where they are made, asked at every sending."""
    choice = settings().sync_fallback
    return bool(choice()) if callable(choice) else choice


def run_here(task: Any, message: Message) -> Any:
    """Run a call as it would have arrived; its ETA is not waited for. Returns Celery's EagerResult.

    Not for a message with a chain or a chord: Celery's ``apply`` would drop what follows.
    """
    message = message.started()
    return task.apply(list(message.args), dict(message.kwargs), **message.options)
