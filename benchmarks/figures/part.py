"""What a part of the benchmarks hands back to the command line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Report:
    """Text for people, the same for programs, and what was found broken (nothing in a good run)."""

    text: str
    data: dict[str, Any]
    broken: tuple[str, ...] = ()
    #: An SVG picture, where the part has one.
    picture: str = ""


def machine_line(machine: dict[str, Any]) -> str:
    """What the figures depend on, in one line."""
    return ", ".join(f"{name} {value}" for name, value in machine.items())
