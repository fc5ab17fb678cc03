"""The result of ``submit()``: which call has the work."""

from __future__ import annotations

from collections.abc import Callable

from celery.result import AsyncResult

from ..states import State


class Submission:
    """The result of ``submit()``. ``created``: this call reserved the key, else an earlier call holds it.

    ``state`` is the key's state at that moment. ``key`` is its text for people, shortened; ``cancel`` and
    ``get_key`` take the value that was given. ``reason`` says why the call was not accepted:
    ``in_progress``, ``already_completed``, ``failed``, ``in_review``; for the same task id again, which is no
    duplicate, also ``cancelled``.
    """

    __slots__ = ("_result", "created", "key", "reason", "state")

    def __init__(
        self,
        result: AsyncResult | Callable[[], AsyncResult] | None,  # type: ignore[type-arg]  # generic in the stubs only
        created: bool,  # noqa: FBT001
        state: State,
        key: str,
        reason: str = "",
    ) -> None:
        """Take a result, or what makes it once somebody asks: of 10,000 calls hardly anybody does."""
        self._result = result
        self.created = created
        self.state = state
        self.key = key
        self.reason = reason

    @property
    def result(self) -> AsyncResult | None:  # type: ignore[type-arg]  # generic in the stubs only
        """The accepted call's; None where another open transaction holds the key, whose call is unknown."""
        if self._result is not None and not isinstance(self._result, AsyncResult):
            self._result = self._result()
        return self._result

    def __repr__(self) -> str:
        told = f"created={self.created}, state={self.state!r}, key={self.key!r}, reason={self.reason!r}"
        return f"Submission({told})"
