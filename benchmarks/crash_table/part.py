"""The part that kills, duplicates and retries, for this package and its peers."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from benchmarks.crash_table.guards import BRIEF, TUNED_LEASE
from benchmarks.crash_table.run import CrashRun, Effort
from benchmarks.crash_table.subjects import SUBJECTS, Subject
from benchmarks.figures.part import Report, machine_line
from benchmarks.throughput.fleet import BrokenBenchmark
from example_project.servers import Servers

NOTES = f"""\
"starts" and "ends" count how often bodies began and ended; each piece of work should end once (the chord has
two). "s to end" is from the strike to the first end; the strike is the kill, else the first start or sending.
Bodies take 5 s and are killed after 2. Messages are acknowledged late unless a row says otherwise (ours
always). 1b: visibility_timeout 10 s, looked for every second unless a row says otherwise.
"outlives its lock": lock or lease {BRIEF.lock} s, body 8 s, sent at 0, 4 and 9.2 s.
"tuned": lease {TUNED_LEASE} s instead of 60, retries after a second, duplicates wait for the result.
Celery notices a dead child after 0 to 5 s, whatever the subject; the last table kills at any moment of that.
After a killed worker its successor has to start, and the message to become visible or ours' lease to end.
"the result" is the real one, "SUCCESS None" a lie. "again" is the same submission once more after a loss."""


def run(options: argparse.Namespace, servers: Servers, logs: Path) -> Report:
    """Run every experiment. Raises BrokenBenchmark when workers do not start, or work never begins."""
    if servers.postgres is None or servers.broker is None:
        raise BrokenBenchmark(
            "These experiments want servers of their own: unset the two variables "
            "DATABASE_URL and CELERY_BROKER_URL."
        )
    subjects = _installed(options.subjects)
    results = CrashRun(subjects, logs, _effort(options)).run()
    text = "\n\n".join([results.tables(), NOTES, machine_line(results.machine)])
    return Report(text, results.as_json(), tuple(results.broken_promises()))


def _installed(names: str) -> Sequence[Subject]:
    """The subjects of these names (all when there is none); one that is missing is left out aloud."""
    wanted = names.split(",") if names else [subject.name for subject in SUBJECTS]
    unknown = set(wanted) - {subject.name for subject in SUBJECTS}
    if unknown:
        raise BrokenBenchmark(f"There is no subject {', '.join(sorted(unknown))}.")
    chosen = [subject for subject in SUBJECTS if subject.name in wanted]
    for subject in chosen:
        if not subject.installed:
            print(f"LEFT OUT: {subject.title} is not installed (pip install -e '.[bench]').", flush=True)
    return [subject for subject in chosen if subject.installed]


def _effort(options: argparse.Namespace) -> Effort:
    kills, worker_kills = (4, 1) if options.quick else (20, 3)
    return Effort(options.kills or kills, options.worker_kills or worker_kills, options.kombu_defaults)
