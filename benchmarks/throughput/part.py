"""The part that measures what the package costs."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from benchmarks.figures.arithmetic import spread
from benchmarks.figures.part import Report, machine_line
from benchmarks.throughput.picture import picture
from benchmarks.throughput.session import Effort, Session
from benchmarks.throughput.variants import chosen
from example_project.servers import Servers

NOTES = """\
Ratios are to the variant named beside them, measured in the same rounds: of the medians, with the extremes
of the rounds; and of the processor time of worker and server, which other work on the machine disturbs
least: the median of the rounds, and how far it may be off. "ms" is processor time a task. Every task writes
one row in a transaction; messages are acknowledged late.
The verdicts are on the processor time. celery-once and celery-singleton lock where a call is sent,
which is not in these figures; their locks and that of SET NX end with the body and refuse no later call.
"stock" opens a database connection for each task, as Celery does; all others keep theirs{checked}.
{message}"commits" are of transactions that changed something{disk}.
"""
#: So much may the plain task vary around its median on a machine that has nothing else to do.
QUIET = 0.15
UNQUIET = (
    "The plain task alone varied by ±{:.0%}: something else was running, and the verdicts mean little.\n"
)


UNSETTLED = "Not settled after {} rounds, as they lie too far apart: {}.\n"


def run(options: argparse.Namespace, servers: Servers, logs: Path) -> Report:
    """Measure as much as the options say. Raises BrokenBenchmark when something was not done exactly once."""
    labels = chosen([name for name in options.only.split(",") if name])
    usual = Effort(50, 3, 30, 40, labels) if options.quick else Effort(200, 5, 300, 340, labels)
    effort = replace(
        usual,
        tasks=options.tasks or usual.tasks,
        rounds=options.rounds or usual.rounds,
        exactly=options.rounds is not None or options.quick,
        in_process=not options.only,
    )
    results = Session(servers, logs, effort).run()
    checked = " and test them first" if options.health_checks else ""
    disk = f". Each flush takes {options.disk:g} ms more" if options.disk else ""
    length = results.stored_message
    message = f"A stored message here is {length} characters long. " if length else ""
    notes = NOTES.format(checked=checked, message=message, disk=disk)
    disturbed = spread(results.rates("plain"))
    if disturbed > QUIET:
        notes += UNQUIET.format(disturbed)
    unsettled = [f"{name} ±{value:.0%}" for name, value in results.unsettled().items()]
    if unsettled:
        notes += UNSETTLED.format(len(results.rounds["plain"]), ", ".join(unsettled))
    text = "\n\n".join([results.tables(), notes.rstrip(), machine_line(results.machine)])
    return Report(text, results.as_json(), picture="" if options.only else picture(results))
