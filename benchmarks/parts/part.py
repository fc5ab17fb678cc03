"""The part that measures work in parts: batches, many calls at once, steps."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from django.core.management import call_command

from benchmarks.figures.part import Report, machine_line
from benchmarks.machine.machine import machine_now
from benchmarks.parts.chunks import chunks
from benchmarks.parts.ends import ends
from benchmarks.parts.stepped import stepped
from benchmarks.parts.submitted import submitted
from benchmarks.reserve.many import many
from benchmarks.reserve.producers import make_app
from example_project.servers import Servers

NOTES = """\
chunks: the same worker processes and rows; from the first row to the last one, or to the end of the batch.
submitted: the peak of a process of its own, above what it has after a batch of ten records.
many: calls a second in one transaction, and the processor time of plain .delay() beside it.
ends: eight processes, one chunk after the other each, without bodies; the best round.
steps: in this process; what a row costs in a transaction is in both figures.
"""


def run(options: argparse.Namespace, servers: Servers, logs: Path) -> Report:
    """Measure as much as the options say."""
    call_command("migrate", verbosity=0, run_syncdb=True)
    quick: bool = options.quick
    rounds = 1 if quick else options.rounds or 5
    work: dict[str, Callable[[], dict[str, Any]]] = {
        "chunks": lambda: chunks(servers.postgres, logs, 500 if quick else options.tasks or 10_000, rounds),
        "submitted": lambda: submitted(10_000 if quick else 100_000),
        "ends": lambda: ends(servers.postgres, 1_000 if quick else 10_000, 1 if quick else 2),
        "many": lambda: many(make_app(), 200 if quick else 2_000, rounds),
        "steps": lambda: stepped(servers.postgres, 50 if quick else 300),
    }
    data: dict[str, Any] = {}
    for part, measure in work.items():
        print(f"measuring {part}", flush=True)
        data[part] = measure()
    machine = machine_now()
    lines = [
        f"{part}, {name}: " + ", ".join(f"{key} {value}" for key, value in figures.items())
        for part, found in data.items()
        for name, figures in found.items()
    ]
    text = "\n".join([*lines, "", NOTES, machine_line(machine)])
    return Report(text, data | {"machine": machine})
