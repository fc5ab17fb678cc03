"""What the sender of a call sees of it."""

from __future__ import annotations

from typing import Any

from celery.result import EagerResult

from benchmarks.crash_table.deeds import DONE


def is_over(call: Any) -> bool:
    """Whether its sender has the last word."""
    return isinstance(call, EagerResult) or bool(call.ready())


def describe(call: Any, *, first: Any = None) -> str:
    """What it got; ``first`` is another call, whose id it may have."""
    if isinstance(call, EagerResult):
        return f"{call.state}, without an id"
    shared = "the first id, " if first is not None and call.id == first.id else ""
    return f"{shared}{_answer(call)}"


def _answer(call: Any) -> str:
    state = str(call.state)
    if not is_over(call):
        return state
    result = call.result
    if isinstance(result, str) and result.startswith(DONE):
        return "the result"
    if isinstance(result, dict) and result.get("status") == "skipped":
        return f"skipped ({result['reason']})"
    return f"{state} {type(result).__name__ if isinstance(result, BaseException) else result}"
