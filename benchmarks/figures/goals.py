"""Whether what was measured is what was aimed at. A goal that is missed is shown and breaks nothing."""

from __future__ import annotations

from dataclasses import dataclass

MEMORY_MB = 5.0
#: Of the time of a guarded run.
DUPLICATE = 0.6
#: Of the same at few keys.
MANY_KEYS = 1.4
#: Of the records a second that plain chunks write.
RECORDS = 0.75
#: Megabytes above an idle process in which a batch of a hundred thousand records is submitted.
BATCH_MEMORY_MB = 60.0
#: Milliseconds that one page of the admin takes of the database.
ADMIN_PAGE = 300.0


@dataclass(frozen=True)
class CountGoal:
    """Statements and commits of a call: more than a plain one has, or (``in_all``) at all."""

    statements: int
    commits: int
    in_all: bool = False

    def __str__(self) -> str:
        sign = "" if self.in_all else "+"
        return f"{sign}{self.statements}, {sign}{self.commits}"

    def verdict(self, counted: tuple[float | None, float], plain: tuple[float | None, float]) -> str:
        """Whether (statements, commits) keep to it."""
        base = (0.0, 0.0) if self.in_all else plain
        return met(
            all(
                own is None or other is None or own - other <= goal
                for own, other, goal in zip(counted, base, (self.statements, self.commits), strict=True)
            )
        )


COUNTS = {
    "atomic": CountGoal(1, 0),
    "atomic-result": CountGoal(2, 0),
    "complete": CountGoal(2, 1),
    "return": CountGoal(2, 2),
    "result": CountGoal(2, 2),
    "dup-atomic": CountGoal(1, 1, in_all=True),
    "dup-leased": CountGoal(1, 1, in_all=True),
    "dup-redelivered-atomic": CountGoal(2, 1, in_all=True),
    "dup-redelivered-leased": CountGoal(2, 1, in_all=True),
}


def at_least(value: float | None, goal: float | None) -> str:
    """The verdict on a figure that should be high; nothing where there is no goal or no figure."""
    return "" if value is None or goal is None else met(value >= goal)


def at_most(value: float | None, goal: float | None) -> str:
    """The verdict on a figure that should be low."""
    return "" if value is None or goal is None else met(value <= goal)


def met(is_met: bool) -> str:  # noqa: FBT001  the one thing it is asked
    """The verdict in words."""
    return "met" if is_met else "not met"
