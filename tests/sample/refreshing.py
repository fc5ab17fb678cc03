"""A task that keeps something up to date: it counts the changes of its key, alone or it says so."""

from __future__ import annotations

import fcntl
import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.db import DatabaseError, InterfaceError

from tests.sample.tasks import guarded, journal

LEASE = 5
#: Seconds for which a change that is debounced waits for the next one, and at most.
DEBOUNCE, DEBOUNCE_MAX = 1, 3


@contextmanager
def alone(key: str) -> Iterator[None]:
    """Note where another body of the key runs at this moment; the lock ends with its process."""
    path = Path(os.environ["PROJ_DIRECTORY"]) / f"{key}.body"
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            journal().write("beside another", key)
        yield


def _refresh(self: Any, key: str) -> int:
    """Read, take some time, and write what was read: a change in between must lead to another run."""
    from tests.sample.models import Effect  # noqa: PLC0415  Celery may import this before the models

    with alone(key):
        journal().write("refresh", key, attempt=self.idempotency.attempt)
        changes = Effect.objects.filter(key=f"change {key}").count()
        time.sleep(random.uniform(0, 0.02))
        with self.idempotency.complete() as done:
            Effect.objects.filter(key=f"derived {key}").delete()
            Effect.objects.create(key=f"derived {key}", attempt=1, token=changes)
            done.result = changes
        journal().write("refreshed", key)
        return changes


#: A connection that is cut inside the body is no end of the work.
_common: dict[str, Any] = {
    "reserve": True,
    "lease": LEASE,
    "on_duplicate": "follow_up",
    "autoretry_for": (DatabaseError, InterfaceError),
    "max_retries": None,
    "default_retry_delay": 0,
    "max_crashes": 1000,
}
refresh = guarded(name="refreshing.refresh", **_common)(_refresh)
settle = guarded(name="refreshing.settle", debounce=DEBOUNCE, debounce_max=DEBOUNCE_MAX, **_common)(_refresh)
