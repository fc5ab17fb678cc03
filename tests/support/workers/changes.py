"""A process that changes things and has them refreshed: ``python -m tests.support.workers.changes``.

Arguments: the task (``refresh`` or ``settle``), the beginning of its keys, how many keys and changes, a seed.
"""

from __future__ import annotations

import random
import sys
import time
from typing import Any

import django
from django.db import Error as DatabaseError
from django.db import connection, transaction

django.setup()

from django_idempotent_tasks import DuplicateTask  # noqa: E402
from tests.sample import refreshing  # noqa: E402
from tests.sample.models import Effect  # noqa: E402
from tests.sample.tasks import journal  # noqa: E402

#: Neighbouring keys that are changed at a time.
SPREAD = 3
#: Seconds that a third of the transactions takes between its call and its commit: longer than a run.
SLOWLY = 0.2


def write(key: str, note: str) -> None:
    """One change."""
    Effect.objects.create(key=f"change {key}", attempt=0, token=0, note=note)


def change(task: Any, key: str, note: str, chance: float) -> None:
    """Change something and have it refreshed, in one transaction, which may be undone, or without."""
    if chance < 0.3:
        write(key, note)
        until_done(lambda: task.delay(key))
        return
    with transaction.atomic():
        if chance < 0.6:
            write(key, note)
        task.delay(key)
        time.sleep(SLOWLY if chance > 0.7 else 0)  # a run that begins meanwhile does not see the change
        if chance >= 0.6:
            write(key, note)
        transaction.set_rollback(chance > 0.9)


def until_done(work: Any) -> None:
    """Try again while the database, or another transaction, has the better of it."""
    while True:
        try:
            work()
        except (DatabaseError, DuplicateTask) as error:
            journal().write("tried again", "", error=type(error).__name__)
            connection.close()
        else:
            return


def main(name: str, prefix: str, keys: int, changes: int, seed: int) -> None:
    """Make the changes of one process: all go from key to key together, so that each key has a last one."""
    chance = random.Random(seed)
    task = getattr(refreshing, name)
    for number in range(changes):
        place = number * keys // changes + chance.randrange(SPREAD)
        key = f"{prefix}-{min(place, keys - 1)}"
        luck = chance.random()
        until_done(lambda: change(task, key, f"{seed}-{number}", luck))  # noqa: B023  done at once


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))
