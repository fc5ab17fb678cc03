"""Reads the options of follow-up runs: what becomes of a call that comes while another one waits or runs."""

from __future__ import annotations

from typing import Any

from .project import settings
from .reader import NOT_GIVEN, OptionReader

#: The value of ``on_duplicate`` with which ``keep`` and ``debounce`` have a meaning, and those of ``keep``.
FOLLOW_UP = "follow_up"
LAST, FIRST = "last", "first"

#: How often ``debounce`` may move a call's time, unless ``debounce_max`` says for how long.
_MOVES = 10


class FollowUpOptions(OptionReader):
    """Adds what is said about calls that come while another one of the key waits or runs."""

    @property
    def _follows(self) -> bool:
        return bool(self._get("on_duplicate", "skip") == FOLLOW_UP)

    def _on_duplicate(self, sensitive: frozenset[str]) -> str:
        chosen = self._choice("on_duplicate", "skip", "replay", "raise", FOLLOW_UP)
        if chosen != FOLLOW_UP:
            return chosen
        if self._get("mode", "leased") == "atomic":
            raise self._wrong(
                "on_duplicate", "'follow_up' needs a run that others can see: set mode='leased'."
            )
        if sensitive:
            raise self._wrong(
                "on_duplicate",
                "'follow_up' must store the call, 'sensitive' forbids that: pass an id instead.",
            )
        return chosen

    def _retention(self) -> int:
        """0 with follow-ups: a change after the end of a run is new work."""
        if not self._follows:
            return self._duration("retention", settings().retention, least=0)
        if self._get("retention", NOT_GIVEN) is not NOT_GIVEN:
            raise self._wrong(
                "retention", "has no meaning with on_duplicate='follow_up', where it is 0: leave it out."
            )
        return 0

    def _of_follow_ups(self) -> dict[str, Any]:
        for name in ("keep", "debounce", "debounce_max"):
            if not self._follows and self._get(name, NOT_GIVEN) is not NOT_GIVEN:
                raise self._wrong(name, "has a meaning only with on_duplicate='follow_up': add that.")
        debounce = self._debounce()
        return {
            "keep": self._choice("keep", LAST, FIRST),
            "debounce": debounce,
            "debounce_max": self._debounce_max(debounce),
        }

    def _debounce(self) -> int:
        debounce = self._duration("debounce", 0, least=0)
        if debounce and not self._flag("reserve", default=False):
            raise self._wrong("debounce", "lets calls wait in the ledger: add reserve=True.")
        return debounce

    def _debounce_max(self, debounce: int) -> int:
        longest = self._duration("debounce_max", 0, least=0)
        if longest and not debounce:
            raise self._wrong("debounce_max", "has a meaning only with 'debounce': add that.")
        if 0 < longest < debounce:
            raise self._wrong("debounce_max", f"must be at least 'debounce', {debounce} s.")
        return longest or debounce * _MOVES
