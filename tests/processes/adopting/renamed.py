"""A reserved task before and after it was renamed; PROJ_RENAMED says which.

As a program, ``python -m tests.processes.adopting.renamed KEY ...``, it sends calls and prints which of them
were created.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import django

if __name__ == "__main__":
    django.setup()

from django_idempotent_tasks import IdempotentTask
from tests.sample.celery import app
from tests.sample.tasks import journal

OURS: dict[str, Any] = {"base": IdempotentTask, "bind": True, "key": "order", "default_retry_delay": 0}
BEFORE: dict[str, Any] = {"name": "shop.ship"}
NAMES = {"name": "shop.deliver", "aliases": ("shop.ship",)} if os.environ.get("PROJ_RENAMED") else BEFORE
task: Callable[..., Callable[[Callable[..., Any]], Any]] = app.task


@task(reserve=True, **OURS, **NAMES)
def ship(self: Any, order: str) -> None:
    """Ship an order, after one retry."""
    if self.request.retries == 0:
        raise self.retry(countdown=0)
    journal().write("shipped", order)


if __name__ == "__main__":
    for key in sys.argv[1:]:
        print(key if ship.submit((key,)).created else "refused")
