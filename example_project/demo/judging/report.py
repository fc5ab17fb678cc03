"""Prints what is going on, and the table at the end."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ..programs import Program
    from .verdict import Verdict

SHOWN = 10


class Report:
    """Says each step with the seconds since the start."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._began

    def step(self, text: str) -> None:
        """Say what comes next."""
        print(f"{self.seconds:5.1f} s  {text}", flush=True)

    def table(self, rows: Mapping[str, object]) -> None:
        """Print names and figures."""
        width = max(map(len, rows))
        print()
        for name, value in rows.items():
            print(f"  {name:<{width}}  {value!s:>8}")
        print(flush=True)

    def verdict(self, what: str, *, holds: bool) -> None:
        """Say in a line how it ended."""
        print(f"  {'passed' if holds else 'FAILED'}: {what}\n", flush=True)


def print_problems(judged: Verdict, others: Iterable[str]) -> None:
    """Print what is wrong, a few of each kind."""
    print_kinds(
        {
            "lost": judged.lost,
            "doubled": judged.doubled,
            "unexpected": judged.unexpected,
            "stale": judged.stale,
            "unbounded": judged.unbounded,
            "other": tuple(others),
        }
    )


def print_kinds(kinds: Mapping[str, tuple[str, ...]]) -> None:
    """Print what is wrong, a few of each kind."""
    for kind, problems in kinds.items():
        for problem in problems[:SHOWN]:
            print(f"  {kind}: {problem}")
        if len(problems) > SHOWN:
            print(f"  {kind}: and {len(problems) - SHOWN} more")


def print_logs(programs: Iterable[Program]) -> None:
    """Print the end of each log."""
    for program in programs:
        print(f"\n--- {program.log}")
        print("\n".join(program.last_lines()), flush=True)
