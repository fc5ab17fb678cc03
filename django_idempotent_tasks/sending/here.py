"""Runs a call in the process that sends it, for eager mode and for ``SYNC_FALLBACK``."""

from __future__ import annotations

from typing import Any

from ..conf import settings
from ..messages.message import Message

#: Options that keep a call from SYNC_FALLBACK: running it in the caller would drop what follows it.
_FOLLOWED = ("chord", "chain", "group_id", "link", "link_error")


def runs_here() -> bool:
    """Whether ``SYNC_FALLBACK`` has callers run what they send; a function there is asked at every call."""
    choice = settings().sync_fallback
    return bool(choice()) if callable(choice) else choice


def is_followed(message: Message) -> bool:
    """Whether something comes after this call that running it in the caller would drop."""
    return any(message.options.get(name) for name in _FOLLOWED)


def run_here(task: Any, message: Message) -> Any:
    """Run a call as it would have arrived; its ETA is not waited for. Returns Celery's EagerResult.

    Not for a message with a chain or a chord: Celery's ``apply`` would drop what follows.
    """
    message = message.started()
    return task.apply(list(message.args), dict(message.kwargs), **message.options)
