"""Times round trips from a host: ``python -m benchmarks.hosts.probe`` prints milliseconds as JSON.

Of the fastest tenth: what is slower has waited for a processor, and not for the way.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable

import psycopg
from redis import Redis

TIMES = 30


def main() -> None:
    """Ask the database and the broker for nothing, often, and print how long the fastest took."""
    with (
        psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as database,
        Redis.from_url(os.environ["CELERY_BROKER_URL"]) as broker,
    ):
        print(
            json.dumps(
                {
                    "database": _milliseconds(lambda: database.execute("SELECT 1")),
                    "broker": _milliseconds(broker.ping),
                }
            )
        )


def _milliseconds(ask: Callable[[], object]) -> float:
    taken = []
    for _ in range(TIMES):
        began = time.perf_counter()
        ask()
        taken.append(1000 * (time.perf_counter() - began))
    return sorted(taken)[TIMES // 10]


if __name__ == "__main__":
    main()
