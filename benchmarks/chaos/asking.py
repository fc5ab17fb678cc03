"""Asks the database of a chaos run, which may be away: by a connection that answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.db import Error as DatabaseError
from django.db import connection

#: Waits, and does meanwhile what becomes due.
Rest = Callable[[float], None]
#: Seconds in which a server that is back must answer.
BACK = 60.0


@contextmanager
def asking(seconds: float = BACK) -> Iterator[Any]:
    """A cursor of the run's own, on a connection that answers; waits so long for one."""
    end = time.monotonic() + seconds
    while True:
        try:
            with connection.cursor() as cursor:
                cursor.execute("SELECT 1")
                break
        except DatabaseError:
            connection.close()
            if time.monotonic() > end:
                raise
            time.sleep(0.1)
    with connection.cursor() as cursor:
        yield cursor
