"""What ``submit`` returns."""

from __future__ import annotations

from dataclasses import dataclass

from celery.result import AsyncResult

from .states import State


@dataclass(frozen=True, slots=True)
class Submission:
    """Which call has the work: this one where ``created``, else the one that was accepted before.

    ``result`` is the accepted call's, None when another open transaction holds the key and its call
    cannot be seen yet. ``state`` is the key's state when it was looked at; ``key`` its text for people.
    """

    result: AsyncResult | None  # type: ignore[type-arg]  # generic in the stubs only
    created: bool
    state: State
    key: str
    #: Why a duplicate was refused: ``in_progress``, ``already_completed``, ``failed``, ``in_review``.
    reason: str = ""
