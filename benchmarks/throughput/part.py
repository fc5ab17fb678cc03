"""The part that measures what the package costs."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from benchmarks.figures.arithmetic import spread
from benchmarks.figures.part import Report, machine_line
from benchmarks.throughput.picture import picture
from benchmarks.throughput.session import Effort, Session
from example_project.servers import Servers

NOTES = """\
Ratios are to the variant named beside them, measured in the same rounds: of the medians; the median of the
rounds' ratios; their extremes; and of the processor time, which other work on the machine disturbs least.
"ms" is processor time a task. Every task writes one row in a transaction; messages are acknowledged late.
The verdicts are on the ratio of the medians. celery-once and celery-singleton lock where a call is sent,
which is not in these figures; their locks and that of SET NX end with the body and refuse no later call.
"stock" opens a database connection for each task, as Celery does; all others keep theirs{checked}.
A stored message here is {message} characters long. "commits" are of transactions that changed something.
"""
#: So much may the plain task vary around its median on a machine that has nothing else to do.
QUIET = 0.15
UNQUIET = (
    "The plain task alone varied by ±{:.0%}: something else was running, and the verdicts mean little.\n"
)


def run(options: argparse.Namespace, servers: Servers, logs: Path) -> Report:
    """Measure as much as the options say. Raises BrokenBenchmark when something was not done exactly once."""
    usual = Effort(50, 3, 30, seconds=40) if options.quick else Effort(200, 9, 300, seconds=340)
    effort = replace(usual, tasks=options.tasks or usual.tasks, rounds=options.rounds or usual.rounds)
    results = Session(servers, logs, effort).run()
    checked = " and test them first" if options.health_checks else ""
    notes = NOTES.format(checked=checked, message=results.stored_message)
    disturbed = spread(results.rates("plain"))
    if disturbed > QUIET:
        notes += UNQUIET.format(disturbed)
    text = "\n\n".join([results.tables(), notes.rstrip(), machine_line(results.machine)])
    return Report(text, results.as_json(), picture=picture(results))
