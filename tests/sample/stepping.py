"""Guarded tasks that take steps, and end or stand still where a test says."""

from __future__ import annotations

import os
import signal
from typing import Any

from django_idempotent_tasks import LeaseLost, PermanentError
from tests.sample.death import LEASE
from tests.sample.tasks import begin, guarded, journal

#: The steps by name, and whether each is external.
STEPS = {"plan": False, "ask": True, "book": False}


def _reach(task: Any, place: str, deadly: str, how: str) -> None:
    """In the first attempt of all: end here, if this is the place."""
    if task.idempotency.token != 1 or place != deadly:
        return
    match how:
        case "die":
            os.kill(os.getpid(), signal.SIGKILL)
        case "fail":
            raise PermanentError(place)
        case "stand still":
            journal().write("stands still", task.idempotency.key, attempt=1)
            os.kill(os.getpid(), signal.SIGSTOP)


def _step(task: Any, key: str, name: str, deadly: str, how: str) -> dict[str, Any]:
    """Write an effect of this step."""
    from tests.sample.models import Effect  # noqa: PLC0415  Celery may import this before the models

    now = task.idempotency
    journal().write("step", key, name=name, attempt=now.attempt, downstream=now.downstream_key(name))
    Effect.objects.create(key=f"{key}-{name}", attempt=now.attempt, token=now.token)
    _reach(task, f"inside {name}", deadly, how)
    return {"name": name, "attempt": now.attempt}


def _take_steps(self: Any, key: str, deadly: str, how: str = "die") -> dict[str, Any]:
    begin(self, key)
    taken = []
    for name, external in STEPS.items():
        _reach(self, f"before {name}", deadly, how)
        try:
            value = self.idempotency.step(name, _step, self, key, name, deadly, how, external=external)
        except LeaseLost:
            journal().write("refused", key, attempt=self.idempotency.attempt)
            raise
        taken.append(value["attempt"])
        _reach(self, f"after {name}", deadly, how)
    return {"key": key, "taken": taken}


stepping = guarded(name="stepping.long", lease=LEASE)(_take_steps)
brief = guarded(name="stepping.brief", lease=2)(_take_steps)
