"""A shop in two versions: PROJ_VERSION says whether its task is plain, as before, or guarded.

As a program, ``python -m tests.processes.adopting.shop PREFIX``, it sells until the gate PREFIX is opened.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any

import django

if __name__ == "__main__":
    django.setup()

from django.db import transaction

from django_idempotent_tasks import IdempotentTask
from tests.sample.celery import app
from tests.sample.models import Effect
from tests.sample.tasks import journal

NEW: dict[str, Any] = {"base": IdempotentTask, "key": "order", "lease": 10, "max_retries": 5}
VERSION = os.environ.get("PROJ_VERSION", "new")
#: Seconds between two orders: two sellers are no faster than two workers.
PACE = 0.15


def versioned(name: str, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """A task that is plain in the old version; the options are those of the new one."""
    ours = {**NEW, **options} if VERSION == "new" else {}
    decorator: Callable[[Callable[..., Any]], Any] = app.task(name=name, bind=True, **ours)
    return decorator


@versioned("shop.charge", reserve=True)
def charge(self: Any, order: str) -> None:
    """Charge an order. Every seventh one is retried once, as projects do."""
    if order.endswith("7") and self.request.retries == 0:
        raise self.retry(countdown=0)
    journal().write("charged", order, version=VERSION)


@versioned("shop.mail")
def mail(self: Any, order: str) -> None:  # noqa: ARG001
    """The same of a task that does not reserve its calls."""
    journal().write("mailed", order, version=VERSION)


def sell(order: str) -> None:
    """Write an order and send what it needs: a plain version after the commit."""
    with transaction.atomic():
        Effect.objects.create(key=order, attempt=0, token=0, note="ordered")
        for task in (charge, mail):
            if VERSION == "new":
                task.delay(order)
            else:
                transaction.on_commit(partial(task.delay, order))
    journal().write("sold", order)


if __name__ == "__main__":
    for number in count():
        if (journal().directory / f"{sys.argv[1]}.end").exists():
            break
        sell(f"{sys.argv[1]}-{number}")
        time.sleep(PACE)
