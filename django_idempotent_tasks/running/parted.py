"""Lets a leased body do its work in parts: take steps, and work through the records of a chunk."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .attempt import Attempt
from .leftovers import Watch
from .records import Records
from .settlement import Settlement
from .steps import Steps


class PartedAttempt(Attempt):
    """An attempt whose steps and records are made where the body asks for them.

    They refer back to it. Without them it is freed, with the arguments of its call, as soon as it has ended.
    """

    #: Whether the body has seen that its lease is over, or may be: it stops, and is run again.
    gave_up = False

    def __init__(self, settlement: Settlement, watch: Watch) -> None:
        super().__init__(settlement, watch)
        self._steps: Steps | None = None
        self._records: Records | None = None

    @property
    def steps(self) -> Steps:
        """The steps that the body takes."""
        self._steps = self._steps or Steps(self)
        return self._steps

    @property
    def records(self) -> Records:
        """The records of the chunk that is the call."""
        self._records = self._records or Records(self)
        return self._records

    def step(self, name: str, function: Callable[..., Any], args: Any, kwargs: Any, *, external: bool) -> Any:
        """What ``.step()`` does."""
        if self._records is not None:
            self._records.check_none_runs("step()")
        return self.steps.take(name, function, args, kwargs, external=external)

    def tell_batch(self) -> None:
        """Let the batch of a chunk know of the attempt's end."""
        if self._records is not None:
            self._records.follow()

    def _check_no_step(self, verb: str) -> None:
        """Refuse what belongs between two steps."""
        if self._steps is not None:
            self._steps.check_none_runs(verb)

    def _check_done(self, verb: str) -> None:
        """Refuse what completes the key while records are to be done."""
        if self._records is not None:
            self._records.check_done(verb)

    def _check_records(self) -> None:
        """Raise where the body has left records; not where it will run again, or could not do them."""
        if self._records is not None and not (self.completed or self.gave_up) and self.captured is None:
            self._records.check_end()
