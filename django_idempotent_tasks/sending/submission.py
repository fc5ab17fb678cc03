"""The result of ``submit()``: which call has the work."""

from __future__ import annotations

from dataclasses import dataclass

from celery.result import AsyncResult

from ..states import State


@dataclass(frozen=True, slots=True)
class Submission:
    """The result of ``submit()``. ``created``: this call reserved the key, else an earlier call holds it.

    ``result`` is the accepted call's, None when another open transaction holds the key and its call
    cannot be seen yet. ``state`` is the key's state at that moment. ``key`` is its text for people,
    shortened; ``cancel`` and ``get_key`` take the value that was given.
    """

    result: AsyncResult | None  # type: ignore[type-arg]  # generic in the stubs only
    created: bool
    state: State
    key: str
    #: Why the call was not accepted: ``in_progress``, ``already_completed``, ``failed``, ``in_review``; for
    #: the same task id again, which is no duplicate, also ``cancelled``.
    reason: str = ""
