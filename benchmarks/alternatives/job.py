"""The job of every queue, and the processor time of the process that runs it, from its first job on."""

from __future__ import annotations

import time
from typing import Any

from django.db import transaction

from benchmarks.throughput.plain import write_row
from benchmarks.throughput.rounds import NOTE

_began: list[float] = []


def write(batch: str, number: int, note: str) -> None:  # noqa: ARG001  makes messages equally long
    """Write one row in a transaction."""
    if not _began:
        _began.append(time.process_time())
    with transaction.atomic():
        write_row(batch, number)


def arguments(number: int, batch: str = "sent") -> dict[str, Any]:
    """The arguments of one job."""
    return {"batch": batch, "number": number, "note": NOTE}


def spent() -> float:
    """The processor seconds of this process since its first job."""
    return time.process_time() - _began[0] if _began else 0.0
