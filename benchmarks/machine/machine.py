"""The machine and the software that the figures depend on."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version

from django.db import connection


def machine_now() -> dict[str, object]:
    """What the figures depend on."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('server_version'), current_setting('fsync')")
        postgres, fsync = cursor.fetchone()
    packages = ("celery", "django", "psycopg")
    return {
        "python": platform.python_version(),
        "postgresql": postgres,
        "fsync": fsync,
        **{name: version(name) for name in packages},
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "load at the start": load(),
    }


def load() -> str:
    """How many processes wanted to run in the last 1, 5 and 15 minutes."""
    return " / ".join(f"{value:.1f}" for value in os.getloadavg())
