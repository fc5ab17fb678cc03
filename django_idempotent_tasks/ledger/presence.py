"""What a worker says about itself in the ledger."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Presence:
    """What a worker says about itself; ``age`` is for how many seconds it has run.

    ``instance`` is how its owner ids begin, ``queues`` are those that it takes messages from now, and
    ``tasks`` the guarded tasks that it knows.
    """

    instance: str
    name: str
    host: str
    pid: int
    pool: str
    concurrency: int
    queues: tuple[str, ...]
    tasks: tuple[str, ...]
    version: str
    age: float
