"""The memory of the worker processes, as Linux accounts for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

KIB_PER_MB = 1024


@dataclass(frozen=True)
class Memory:
    """Resident and proportional megabytes of one process: shared pages count whole, and in parts."""

    rss: float
    pss: float


@dataclass(frozen=True)
class WorkerMemory:
    """Of a worker: its parent, and the mean of its children."""

    parent: Memory
    child: Memory


def worker_memory(parent: int, pool: Sequence[int]) -> WorkerMemory | None:
    """Read it now, by process id; None where the system does not tell."""
    try:
        own, *others = (parse(Path(f"/proc/{pid}/smaps_rollup").read_text()) for pid in (parent, *pool))
    except OSError:
        return None
    return WorkerMemory(own, Memory(mean(one.rss for one in others), mean(one.pss for one in others)))


def parse(text: str) -> Memory:
    """Read what ``/proc/PID/smaps_rollup`` says."""
    fields = dict(line.split(":", 1) for line in text.splitlines() if line.endswith("kB"))
    rss, pss = (int(fields[name].split()[0]) / KIB_PER_MB for name in ("Rss", "Pss"))
    return Memory(rss, pss)
