"""A pause of a task, as the ledger reads it for senders, workers and the sweeper."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Paused:
    """A pause as it was read: ``scope`` "" is every scope; ``rate`` calls a second are sent once it is over.

    ``ended_for``: the seconds since its end, 0 while it is in force.
    """

    id: int
    task: str
    scope: str
    rate: int
    by: str = ""
    reason: str = ""
    ended_for: float = 0.0

    def holds(self, task: str, scope: str | None) -> bool:
        """Whether it is for calls of this task and scope."""
        return self.task == task and self.scope in {"", scope}
