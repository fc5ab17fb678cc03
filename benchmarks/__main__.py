"""Runs the benchmarks: ``python -m benchmarks``; exits 1 when something broke, never because it was slow."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path

import django

from benchmarks.chaos.links import leave
from benchmarks.chaos.servers import BROKERS, DATABASES, start_servers
from benchmarks.figures.part import Report
from benchmarks.hosts.network import LeftOut
from benchmarks.hosts.servers import start_far_servers
from benchmarks.machine.disk import slow_disk
from benchmarks.machine.environment import set_beat, set_servers
from example_project.servers import Servers, ServerUnavailable, ensure_servers, fresh_directory

DESCRIPTION = """\
throughput (the default) measures what the package costs beside plain Celery and other guards, in about
seven minutes.
profile shows where the time of a guarded task goes in its process, in about half a minute.
claims times claims and completions at ten thousand and at ten million keys, in about five minutes.
crash kills children and workers, sends duplicates and lets tasks retry, for this package and its peers side
by side, in about four minutes.
admin opens the pages of the admin at five million keys and a hundred thousand dead letters, in about four
minutes.
beat times an idle tick with ten thousand entries and thousands that are due, beside the ordinary scheduler.
reserve times senders beside their peers, the relay and pruning, in about one minute.
upkeep has the sweeper send, delete a million keys beside claims, and hold a busy table level, in about
thirteen minutes.
rows says how far one table goes: verbs at a hundred thousand and at ten million keys, vacuum, rebuilt
indexes, and a live table that is moved into hash partitions, in about twenty-five minutes.
alternatives sends and runs the same job by plain Celery, by this package, and by other queues that are
installed, in about ten minutes.
parts times batches of records beside plain chunks, their submission and their ends, and steps, in about ten
minutes.
chaos makes ten thousand calls of every kind under faults of every kind, and judges what became of each, in
about five minutes; a seed gives the same calls and faults again.
hosts goes beyond one machine: four hosts in network namespaces, up to twenty milliseconds away from the
servers, and one that is cut off, in about six minutes; needs root.
all runs every part on servers of its own, with --quick, --json (a file a part) and --plot.
"make bench" installs the peers; one that is not there is left out.
Exits 1 when something broke or was not done exactly once, never because something was slow.
"""
#: Each part and its module, which needs the settings and is imported late.
PARTS = {
    "throughput": "benchmarks.throughput.part",
    "profile": "benchmarks.profiling.part",
    "claims": "benchmarks.claims.part",
    "crash": "benchmarks.crash_table.part",
    "reserve": "benchmarks.reserve.part",
    "admin": "benchmarks.admin_volume.part",
    "beat": "benchmarks.beat.part",
    "upkeep": "benchmarks.upkeep.part",
    "parts": "benchmarks.parts.part",
    "chaos": "benchmarks.chaos.part",
    "rows": "benchmarks.rows.part",
    "alternatives": "benchmarks.alternatives.part",
    "hosts": "benchmarks.hosts.part",
}
#: Settings of parts that need others.
SETTINGS = {
    "admin": "benchmarks.admin_volume.settings",
    "alternatives": "benchmarks.alternatives.settings",
    "chaos": "benchmarks.chaos.settings",
    "hosts": "benchmarks.hosts.settings",
}
ALL = "all"


def main() -> int:
    """Run once and return the exit code."""
    options = _options()
    # These would end the process at once; as exceptions they stop what was started, as Ctrl-C does.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _frame: sys.exit(128 + number))
    if options.part == ALL:
        return max(_run_apart(part, options) for part in PARTS)
    try:
        with ExitStack() as undo:
            servers = undo.enter_context(_servers(options, undo))
            if options.part == "beat":
                set_beat()
            set_servers(servers.environment, checked=options.health_checks)
            os.environ["BENCH_BEFORE"] = options.before
            os.environ.update(
                DJANGO_SETTINGS_MODULE=SETTINGS.get(options.part, os.environ["DJANGO_SETTINGS_MODULE"])
            )
            django.setup()
            return _run(options, servers)
    except (ServerUnavailable, LookupError) as error:
        print(error)
        return 1
    except LeftOut as error:
        print(f"{options.part} is left out: {error}")
        return 0
    except KeyboardInterrupt:
        print("\nstopped")
        return 130


def _servers(options: argparse.Namespace, undo: ExitStack) -> Servers:
    if options.part == "chaos":
        return start_servers(options.database, options.broker, leave())
    if options.part == "hosts":
        return start_far_servers()
    slow = _slow_disk(options.disk, undo) if options.disk else None
    return ensure_servers(durable=True, preload=slow)


def _slow_disk(milliseconds: float, undo: ExitStack) -> Path:
    library = slow_disk(milliseconds)
    undo.callback(shutil.rmtree, library.parent, ignore_errors=True)
    return library


def _run_apart(part: str, options: argparse.Namespace) -> int:
    """Run one part in a process of its own; its exit code."""
    print(f"\n{part}\n", flush=True)
    command = [sys.executable, "-m", "benchmarks", part, *(["--quick"] if options.quick else [])]
    if options.json:
        command.append(f"--json={options.json.with_stem(f'{options.json.stem}-{part}')}")
    if options.plot:
        command.append(f"--plot={options.plot}")
    return subprocess.run(command, check=False).returncode


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("part", nargs="?", choices=[*PARTS, ALL], default="throughput", help="what to run")
    parser.add_argument("--quick", action="store_true", help="rough figures: few tasks, few kills")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything that was measured")
    _throughput_options(parser.add_argument_group("throughput"))
    _claims_options(parser.add_argument_group("claims"))
    _crash_options(parser.add_argument_group("crash"))
    _chaos_options(parser.add_argument_group("chaos"))
    return parser.parse_args()


def _throughput_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--tasks", type=int, help="tasks in each round")
    group.add_argument("--rounds", type=int, help="rounds of each variant, however far they lie apart")
    group.add_argument("--only", default="", metavar="NAME,NAME", help="these variants alone, e.g. atomic")
    group.add_argument("--before", default="", metavar="DIRECTORY", help="beside an older checkout's package")
    group.add_argument(
        "--disk",
        type=float,
        default=0,
        metavar="MS",
        help="each flush of the server takes MS longer",
    )
    group.add_argument("--plot", type=Path, metavar="FILE", help="draw the ratios as an SVG picture")
    group.add_argument(
        "--no-health-checks",
        dest="health_checks",
        action="store_false",
        help="kept connections are not tested before use (CONN_HEALTH_CHECKS off)",
    )


def _claims_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--keys", type=int, metavar="N", help="keys in the larger table (10000000; of admin 5000000)"
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


def _chaos_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--seed", type=int, default=1, metavar="N", help="chooses the calls and the faults (1)"
    )
    group.add_argument("--calls", type=int, metavar="N", help="calls of a seed (10000)")
    group.add_argument("--faults", type=int, metavar="N", help="faults of a seed (220)")
    group.add_argument(
        "--minutes", type=float, default=0, metavar="N", help="seed after seed, for so long: a soak"
    )
    group.add_argument("--database", choices=DATABASES, default="postgresql", help="started for the run")
    group.add_argument("--broker", choices=BROKERS, default="redis", help="started for the run")
    group.add_argument(
        "--strikes", default="", metavar="NAME,NAME", help="these faults alone, such as 'child frozen'"
    )
    group.add_argument(
        "--break",
        dest="broken",
        choices=["fencing", "sweeper"],
        help="take this from the package, to see the checker find it: the run must exit 1",
    )
    group.add_argument(
        "--report", type=Path, default=Path("build/chaos"), metavar="DIRECTORY", help="as text and HTML"
    )


def _run(options: argparse.Namespace, servers: Servers) -> int:
    from benchmarks.throughput.fleet import BrokenBenchmark  # noqa: PLC0415  it needs the settings

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
    if options.plot and report.picture:
        options.plot.write_text(report.picture)
    if report.broken:
        print("\n".join(["", "BROKEN:", *report.broken, "", f"The workers' logs are in {logs}."]))
        return 1
    shutil.rmtree(logs, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
