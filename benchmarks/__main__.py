"""Runs the benchmarks: ``python -m benchmarks``; exits 1 when something broke, never because it was slow."""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path

import django

from benchmarks.environment import set_servers
from benchmarks.part import Report
from example_project.servers import Servers, ServerUnavailable, ensure_servers, fresh_directory

DESCRIPTION = """\
throughput (the default) measures what the package costs, in about five minutes.
crash kills children and workers, sends duplicates and lets tasks retry, for this package and its peers side
by side, in about four minutes.
reserve times senders beside their peers, the relay and pruning, in about one minute.
"make bench" installs the peers; one that is not there is left out.
Exits 1 when something broke or was not done exactly once, never because something was slow.
"""
#: Each part and its module, which needs the settings and is imported late.
PARTS = {
    "throughput": "benchmarks.throughput",
    "crash": "benchmarks.crash_table.part",
    "reserve": "benchmarks.reserve.part",
}


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
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("part", nargs="?", choices=PARTS, default="throughput", help="what to run")
    parser.add_argument("--quick", action="store_true", help="rough figures: few tasks, few kills")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything that was measured")
    _throughput_options(parser.add_argument_group("throughput"))
    _crash_options(parser.add_argument_group("crash"))
    return parser.parse_args()


def _throughput_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--tasks", type=int, help="tasks in each round")
    group.add_argument("--rounds", type=int, help="rounds of each variant")
    group.add_argument(
        "--no-health-checks",
        dest="health_checks",
        action="store_false",
        help="kept connections are not tested before use (CONN_HEALTH_CHECKS off)",
    )


def _crash_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--subjects", default="", metavar="NAME,NAME", help="only these, e.g. plain,once,ours")
    group.add_argument("--kills", type=int, metavar="N", help="children killed to time the next claim (20)")
    group.add_argument("--worker-kills", type=int, metavar="N", help="the same with whole workers (3)")
    group.add_argument(
        "--kombu-defaults",
        action="store_true",
        help="kill workers also where lost messages are looked for at kombu's own pace: three minutes more",
    )


def _run(options: argparse.Namespace, servers: Servers) -> int:
    from benchmarks.fleet import BrokenBenchmark  # noqa: PLC0415  it needs the settings

    logs = fresh_directory("benchmarks")
    try:
        report: Report = import_module(PARTS[options.part]).run(options, servers, logs)
    except BrokenBenchmark as error:
        print(f"\n{error}\n\nThe workers' logs are in {logs}.")
        return 1
    except BaseException:
        shutil.rmtree(logs, ignore_errors=True)
        raise
    print(f"\n{report.text}")
    if options.json:
        options.json.write_text(json.dumps(report.data, indent=2) + "\n")
    if report.broken:
        print("\n".join(["", "BROKEN:", *report.broken, "", f"The workers' logs are in {logs}."]))
        return 1
    shutil.rmtree(logs, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
