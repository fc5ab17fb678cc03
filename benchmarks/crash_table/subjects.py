"""Who is compared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from benchmarks.crash_table import guards
from benchmarks.crash_table.guards import Variant

Guard = Callable[[Any, Variant], None]
LockName = Callable[..., str]


@dataclass(frozen=True)
class Subject:
    """One way to guard a task, with its own database in Redis; ``package`` is what has to be installed.

    ``lock`` names the lock of a call in Redis; None where there is none.
    """

    name: str
    title: str
    redis: int
    guard: Guard
    lock: LockName | None = None
    package: str = ""
    ours: bool = False

    @property
    def installed(self) -> bool:
        """Whether it can be run here."""
        return not self.package or find_spec(self.package.replace("-", "_")) is not None


SUBJECTS = (
    Subject("plain", "plain Celery", 1, guards.plain),
    Subject("naive", "naive SET NX", 2, guards.naive, guards.naive_lock),
    Subject("once", "celery-once", 3, guards.once, guards.once_lock, "celery-once"),
    Subject("singleton", "celery-singleton", 4, guards.singleton, guards.singleton_lock, "celery-singleton"),
    Subject("ours", "ours, defaults", 5, guards.ours, ours=True),
    Subject("tuned", "ours, tuned", 6, guards.ours_tuned, ours=True),
)
#: The same guards again, for what is measured while the subjects are busy.
MEASURED = (
    Subject("plain-measured", "plain Celery", 7, guards.plain),
    Subject("tuned-measured", "ours, tuned", 8, guards.ours_tuned, ours=True),
)
BY_NAME = {subject.name: subject for subject in (*SUBJECTS, *MEASURED)}
