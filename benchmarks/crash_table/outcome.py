"""How one experiment ended for one subject."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Outcome:
    """How often the bodies of ``pieces`` pieces of work began and ended, and when the first one ended.

    ``seconds`` is counted from the strike; None when no end came within ``waited``.
    """

    experiment: str
    subject: str
    ours: bool
    completed: bool
    starts: int
    ends: int
    seconds: float | None
    waited: float
    remark: str
    pieces: int = 1

    @property
    def is_sound(self) -> bool:
        """Whether every piece was completed, and none twice."""
        return self.completed and self.ends == self.pieces
