"""Runs the benchmarks: ``python -m benchmarks``; exits 1 when something broke, never because it was slow."""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import django

from benchmarks.environment import set_servers
from example_project.servers import Servers, ServerUnavailable, ensure_servers, fresh_directory

NOTES = """\
Ratios are to the variant named beside them, measured in the same rounds: of the medians; the median of the
rounds' ratios; their extremes; and of the processor time, which other work on the machine disturbs least.
"ms" is processor time a task. Every task writes one row in a transaction; messages are acknowledged late.
"stock" opens a database connection for each task, as Celery does; all others keep theirs{checked}.
A stored message here is {message} characters long. "commits" are of transactions that changed something.
"""


def main() -> int:
    """Run once and return the exit code."""
    options = _options()
    # These would end the process at once; as exceptions they stop what was started, as Ctrl-C does.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _frame: sys.exit(128 + number))
    try:
        with ExitStack() as undo:
            servers = undo.enter_context(ensure_servers(durable=True))
            set_servers(servers.environment, checked=options.health_checks)
            django.setup()
            return _run(options, servers)
    except ServerUnavailable as error:
        print(error)
        return 1
    except KeyboardInterrupt:
        print("\nstopped")
        return 130


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="under a minute: few tasks, rough figures")
    parser.add_argument("--tasks", type=int, help="tasks in each round")
    parser.add_argument("--rounds", type=int, help="rounds of each variant")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything that was measured")
    parser.add_argument(
        "--no-health-checks",
        dest="health_checks",
        action="store_false",
        help="kept connections are not tested before use (CONN_HEALTH_CHECKS off)",
    )
    return parser.parse_args()


def _run(options: argparse.Namespace, servers: Servers) -> int:
    from benchmarks.fleet import BrokenBenchmark  # noqa: PLC0415  these need the settings
    from benchmarks.session import Effort, Session  # noqa: PLC0415

    usual = Effort(50, 3, 30, seconds=20) if options.quick else Effort(200, 9, 300, seconds=220)
    effort = replace(usual, tasks=options.tasks or usual.tasks, rounds=options.rounds or usual.rounds)
    logs = fresh_directory("benchmarks")
    try:
        results = Session(servers, logs, effort).run()
    except BrokenBenchmark as error:
        print(f"\n{error}\n\nThe workers' logs are in {logs}.")
        return 1
    except BaseException:
        shutil.rmtree(logs, ignore_errors=True)
        raise
    shutil.rmtree(logs, ignore_errors=True)
    checked = " and test them first" if options.health_checks else ""
    print(f"\n{results.tables()}\n")
    print(NOTES.format(checked=checked, message=results.stored_message))
    print(", ".join(f"{name} {value}" for name, value in results.machine.items()))
    if options.json:
        options.json.write_text(json.dumps(results.as_json(), indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
