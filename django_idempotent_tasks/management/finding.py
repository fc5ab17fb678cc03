"""One thing that needs a person."""

from __future__ import annotations

from dataclasses import dataclass

from .counts import Count


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that needs a person, and what to do; ``words`` may name the count."""

    name: str
    count: Count
    words: str

    @property
    def text(self) -> str:
        """The finding in a sentence or two."""
        return self.words.format(self.count)
