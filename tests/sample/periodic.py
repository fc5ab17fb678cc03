"""What beat sends: a task that notes which occurrence ran, and one that is only sent."""

from __future__ import annotations

from typing import Any

from tests.sample.celery import app
from tests.sample.tasks import guarded, journal


@guarded(name="proj.beaten", key=())
def beaten(self: Any) -> None:
    """Note the occurrence."""
    journal().write("ran", "beaten", due=self.request.periodic_due_at)


@app.task(name="proj.plain_beaten")
def plain_beaten() -> None:
    """Its messages are counted where they wait."""
