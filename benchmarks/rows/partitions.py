"""Moves a live table into hash partitions by the statements of the documentation, and measures it there."""

from __future__ import annotations

import re
import time
from pathlib import Path
from statistics import median
from typing import Any

from django.db import connection

from benchmarks.claims.tables import FEW, TABLE, execute
from benchmarks.reserve.pruned import p99
from benchmarks.rows.busy import tasks_beside
from benchmarks.rows.verbs import measure

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "many-rows.md"
_STEP = re.compile(r"^```sql\n-- (\d)\. .*?\n(.*?)^```$", re.MULTILINE | re.DOTALL)

#: Rows that one of the two tables has and the other has not.
APART = f"""
SELECT (SELECT count(*) FROM (TABLE public.{TABLE} EXCEPT TABLE parts.{TABLE}) AS gone)
     + (SELECT count(*) FROM (TABLE parts.{TABLE} EXCEPT TABLE public.{TABLE}) AS ghosts)
"""  # noqa: S608  our own names


def statements() -> list[str]:
    """The steps of the page, in their order."""
    return [text for _number, text in sorted(_STEP.findall(PAGE.read_text()))]


def move(*, check: bool = True) -> int:
    """Take the steps of the page; how many rows were apart before the swap, where ``check`` asks for it."""
    make, follow, copy, swap = statements()
    for statement in (make, follow, copy, copy.replace(" SKIP LOCKED", "")):
        execute(FEW, statement)
    apart = _apart() if check else 0
    execute(FEW, f"ANALYZE parts.{TABLE}")
    execute(FEW, swap)
    return apart


def moved(rows: int, samples: int) -> dict[str, Any]:
    """Move the table beside tasks, and then time the verbs on its partitions."""
    with tasks_beside() as alone:
        time.sleep(3)
    began = time.perf_counter()
    with tasks_beside() as beside:
        apart = move()
    return {
        "seconds": round(time.perf_counter() - began, 1),
        "tasks meanwhile": len(beside),
        "rows apart": apart,
        "task alone, median ms": round(1e3 * median(alone), 2),
        "p99": round(1e3 * p99(alone), 2),
        "beside, median": round(1e3 * median(beside), 2),
        "beside, p99": round(1e3 * p99(beside), 2),
        "beside, longest": round(1e3 * max(beside), 2),
        "verbs": measure(rows, samples),
    }


def _apart() -> int:
    """Compare both tables while nobody writes to them."""
    with connection.cursor() as cursor:
        cursor.execute(f"BEGIN; LOCK TABLE public.{TABLE} IN SHARE MODE")
        cursor.execute(APART)
        number: int = cursor.fetchone()[0]
        cursor.execute("COMMIT")
    return number
