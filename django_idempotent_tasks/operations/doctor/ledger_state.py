"""Checks of what stands in the ledger's database: its migrations, its clock, its sweeper and beat."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ...identity.text import harmless
from ..text import listed
from .check import Catalogue, Severity

ledger_state = Catalogue("Ledger")
beat_state = Catalogue("Beat")

#: Seconds by which the clocks of this host and of the database may differ.
SKEW = 2.0


@dataclass(frozen=True, slots=True)
class LedgerState:
    """What was read: ``told`` are the findings of ``idem status`` by name."""

    unapplied: list[str] = field(default_factory=list)
    skew: float = 0.0
    told: Mapping[str, str] = field(default_factory=dict)
    #: Enabled periodic tasks by name, with a task that this project does not have.
    unknown: Mapping[str, str] = field(default_factory=dict)


@ledger_state.check(
    "D720",
    Severity.ERROR,
    finds="migrations of this package that are not applied",
    why="The statements of this version name columns that are not there.",
    remedy="Run 'manage.py migrate' with the alias of the ledger before the new workers start.",
)
def _is_not_migrated(state: LedgerState) -> Iterator[str]:
    if state.unapplied:
        yield f"Not applied: {listed(state.unapplied)}."


@ledger_state.check(
    "D721",
    Severity.WARNING,
    finds="a clock of this host that differs from the database's by more than 2 s",
    why="Leases go by the database's clock alone, but countdowns, expiries and beat go by the hosts' clocks.",
    remedy="Let NTP set the clocks of all hosts.",
)
def _is_askew(state: LedgerState) -> Iterator[str]:
    if abs(state.skew) > SKEW:
        yield f"This host's clock is {abs(state.skew):.1f} s {'behind' if state.skew > 0 else 'ahead'}."


@ledger_state.check(
    "D722",
    Severity.ERROR,
    finds="no process that leads the sweeper",
    why="Nobody frees the keys of dead workers, sends what the broker lost, or deletes what is past its"
    " time.",
    remedy="Start a worker with SWEEPER = 'thread', or 'manage.py idem sweep'.",
)
def _is_not_swept(state: LedgerState) -> Iterator[str]:
    yield from _of(state, "no_leader")


@ledger_state.check(
    "D723",
    Severity.WARNING,
    finds="leases that ended over a minute ago, or keys that are overdue",
    why="Work waits: no worker takes its message, or nobody sends it.",
    remedy="Check that workers consume the queues (D012) and that the sweeper works ('idem health sweeper').",
)
def _is_overdue(state: LedgerState) -> Iterator[str]:
    yield from _of(state, "expired_leases", "pending_overdue", "retry_overdue")


@ledger_state.check(
    "D724",
    Severity.WARNING,
    finds="1,000 or more keys that should have been deleted",
    why="The tables grow, and with them the time of each claim.",
    remedy="Run 'idem prune --yes --pause 0' once, and look at what the database does.",
)
def _is_behind(state: LedgerState) -> Iterator[str]:
    yield from _of(state, "prune_behind")


@beat_state.check(
    "D920",
    Severity.ERROR,
    finds="no beat that leads, while periodic tasks are enabled",
    why="No periodic task is sent.",
    remedy="Start one or two: 'manage.py idem beat'.",
)
def _is_not_led(state: LedgerState) -> Iterator[str]:
    yield from _of(state, "beat_no_leader")


@beat_state.check(
    "D921",
    Severity.WARNING,
    finds="periodic tasks that are overdue, or that beat cannot read",
    why="Beat sends them late, or not at all.",
    remedy="'idem health beat' names them, with the remedy.",
)
def _is_late(state: LedgerState) -> Iterator[str]:
    yield from _of(state, "beat_overdue", "beat_unreadable")


@beat_state.check(
    "D922",
    Severity.ERROR,
    finds="an ordinary beat beside ours",
    why="Each periodic task is sent twice.",
    remedy="Stop every 'celery beat' that runs without the scheduler of this package.",
)
def _has_a_stranger(state: LedgerState) -> Iterator[str]:
    yield from _of(state, "beat_stranger")


@beat_state.check(
    "D923",
    Severity.ERROR,
    finds="an enabled periodic task of the admin whose task this project does not have",
    why="Beat sends it, no worker can run it, and the work is not done.",
    remedy="Correct the task's name in the admin of django-celery-beat, or disable the entry.",
)
def _is_unknown(state: LedgerState) -> Iterator[str]:
    for name, task in state.unknown.items():
        yield f"{harmless(name)!r} names {harmless(task)!r}."


def _of(state: LedgerState, *names: str) -> Iterator[str]:
    """What ``idem status`` says under these names."""
    for name in names:
        if name in state.told:
            yield state.told[name]
