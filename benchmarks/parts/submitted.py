"""A batch of many records from a generator: how fast it is submitted, and in how much memory."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

from benchmarks.figures.goals import BATCH_MEMORY_MB, at_most
from benchmarks.machine.memory import KIB_PER_MB
from benchmarks.reserve.producers import make_app
from benchmarks.throughput.fleet import BrokenBenchmark
from django_idempotent_tasks import IdempotentTask, submit_batch
from django_idempotent_tasks.models import Batch, BatchChunk

#: Submitted before, so that everything is imported and connected: one chunk.
FEW = 10
PROGRAM = (
    "import django; django.setup(); from benchmarks.parts.submitted import submit_and_tell; submit_and_tell()"
)


def submitted(records: int) -> dict[str, Any]:
    """Records a second, and megabytes above the idle process, of a process of its own."""
    program = [sys.executable, "-c", PROGRAM, str(records)]
    found: dict[str, Any] = json.loads(
        subprocess.run(program, check=True, capture_output=True, text=True).stdout
    )
    if found.pop("records") != records:
        raise BrokenBenchmark("Not all records are in the batch.")
    above = found["MB above idle"]
    return {"from a generator": found | {f"goal <= {BATCH_MEMORY_MB}": at_most(above, BATCH_MEMORY_MB)}}


def submit_and_tell() -> None:
    """In a process of its own: submit few records, then many, and print what the latter took."""
    records, app = int(sys.argv[1]), make_app()

    @app.task(name="parts.submitted", shared=False, base=IdempotentTask)
    def register(records: list[Any]) -> None:
        """Never runs."""

    submit_batch(register, _records(FEW), batch_key=str(uuid4()))
    idle, began = _memory("VmRSS"), time.perf_counter()
    batch = submit_batch(register, _records(records), batch_key=str(uuid4()))
    seconds = time.perf_counter() - began
    kept = Batch.objects.get(id=batch.id)
    print(
        json.dumps(
            {
                "records": kept.records
                if kept.chunks == BatchChunk.objects.filter(batch_id=batch.id).count()
                else 0,
                "records/s": round(records / seconds),
                "MB above idle": round(_memory("VmHWM") - idle, 1),
            }
        )
    )


def _records(number: int) -> Iterator[dict[str, Any]]:
    """Lines of a file, about 100 bytes each."""
    for line in range(number):
        yield {
            "line": line,
            "name": f"Participant {line}",
            "mail": f"p{line}@example.org",
            "event": line % 97,
        }


def _memory(field: str) -> float:
    """Megabytes of this process, as Linux accounts for it: getrusage() would begin with its parent's peak."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) / KIB_PER_MB
