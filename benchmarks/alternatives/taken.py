"""What a job took: seconds by the clock, and of the processor."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.machine.cpu import server_seconds
from example_project.servers import Server


@dataclass(frozen=True)
class Taken:
    """Seconds a job; the processor's are those of the client or worker, and of the database's server."""

    elapsed: float
    busy: float


def taken(work: Callable[[], object], jobs: int, server: Server) -> Taken:
    """Do the work of so many jobs in this process."""
    began, busy, served = time.perf_counter(), time.process_time(), server_seconds(server.pid) or 0.0
    work()
    busy, elapsed = time.process_time() - busy, time.perf_counter() - began
    return Taken(elapsed / jobs, (busy + (server_seconds(server.pid) or 0.0) - served) / jobs)


def medians(measured: Sequence[Taken]) -> Taken:
    """Of several rounds."""
    return Taken(median(one.elapsed for one in measured), median(one.busy for one in measured))
