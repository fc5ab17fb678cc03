"""Reads whether a task's guard refuses calls, or only notes what it would refuse: shadow mode."""

from __future__ import annotations

from .follow_ups import FOLLOW_UP
from .project import settings
from .reader import OptionReader


class ShadowOptions(OptionReader):
    """Adds ``enforce``, and refuses what has no meaning where nothing is refused."""

    def _enforce(self) -> bool:
        """Whether calls are refused; without a word of the task as the setting ``ENFORCE`` says."""
        enforce = self._flag("enforce", default=settings().enforce)
        if enforce:
            return True
        if self._flag("reserve", default=False):
            raise self._wrong(
                "reserve",
                "leaves calls to the ledger, and a task in shadow mode (enforce=False, or the setting"
                " ENFORCE) is sent as by plain Celery: leave it out until the task is enforced, or say"
                " enforce=True.",
            )
        if self._get("on_duplicate", "skip") == FOLLOW_UP:
            raise self._wrong(
                "on_duplicate",
                "'follow_up' lets calls wait, and a task in shadow mode (enforce=False, or the setting"
                " ENFORCE) runs each at once: leave it out until the task is enforced, or say enforce=True.",
            )
        return False
