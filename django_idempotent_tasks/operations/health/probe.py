"""The answer of a health probe: what is wrong, what was seen, or why nobody could look."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Health:
    """What a probe saw. Healthy without ``problems``; ``blind`` says why it could not look."""

    summary: str
    problems: list[str] = field(default_factory=list)
    facts: Mapping[str, object] = field(default_factory=dict)
    blind: str = ""
