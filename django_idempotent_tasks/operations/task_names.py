"""The names of tasks that people choose from: those this process knows, and those of the counted hours."""

from __future__ import annotations

from celery import current_app

from ..models import COUNTED, HourlyCount
from .tasks import known_task

#: How many of the newest counts are read, one for each hour and task.
COUNTS = 5000
#: How many names are offered.
MOST = 200


def guarded_names(alias: str) -> list[str]:
    """The names of guarded tasks, sorted by their short names, at most ``MOST``: one bounded read."""
    known_task("")  # imports the project's tasks
    found = {name for name, task in current_app.tasks.items() if hasattr(task, "idempotency_policy")}
    counted = HourlyCount.objects.using(alias).order_by("-hour").values_list("task", flat=True)[:COUNTS]
    found |= {name for name in counted if name != COUNTED}
    return sorted(found, key=lambda name: (short_name(name), name))[:MOST]


def plain_names() -> list[str]:
    """The names of the project's tasks that are not guarded, as far as this process knows them."""
    known_task("")
    tasks = current_app.tasks.items()
    found = {name for name, task in tasks if not hasattr(task, "idempotency_policy")}
    return sorted(name for name in found if not name.startswith("celery."))[:MOST]


def short_name(name: str) -> str:
    """The last part of a task's name."""
    return name.rpartition(".")[2]


def named_so(names: list[str], text: str) -> list[str]:
    """Those names that a text names in full, or by their last parts; else the text as a name."""
    wanted = text.lower()
    found = [name for name in names if f".{name.lower()}".endswith(f".{wanted}")]
    return found or [text]
