"""The part that measures how far one table of keys goes, on a server of its own."""

from __future__ import annotations

import argparse
import re
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.core.management import call_command

from benchmarks.claims.tables import FEW, FILL, TABLE, execute, fill
from benchmarks.figures.part import Report, machine_line
from benchmarks.figures.table import figure, render
from benchmarks.machine.machine import load, machine_now
from benchmarks.reserve.pruned import p99
from benchmarks.rows.busy import tasks_beside
from benchmarks.rows.partitions import moved
from benchmarks.rows.steady import WAYS, megabytes, steady
from benchmarks.rows.verbs import Taken, measure
from benchmarks.throughput.fleet import BrokenBenchmark
from example_project.servers import Servers

#: Keys of the small and of the large table, and of the one that is moved into partitions.
FEW_ROWS, MANY_ROWS, MOVED_ROWS, QUICK_ROWS = 100_000, 10_000_000, 1_000_000, 200_000
SECONDS, SECONDS_QUICK = 180, 10

#: A week's keys, of which the older half is past its time.
PAST = FILL.replace("now() - interval", "now() - interval '84 hours' - interval")

SETTINGS = (
    "ALTER SYSTEM SET max_wal_size = '4GB'",
    "ALTER SYSTEM SET maintenance_work_mem = '512MB'",
    # Looks for tables to vacuum more often than by default, since a run is short.
    "ALTER SYSTEM SET autovacuum_naptime = '10s'",
)

NOTES = """\
Through the store, in this process, on one connection; commits wait for the disk. Of sweeps and prunes a tenth
as many are timed. A plan is the server's own choice. The steady run claims, completes and deletes 2,000 keys
a second on the large table, each second's in a few statements. An arrow leads from its beginning to its end:
times are medians of the first and the last third, pages those that the statements touch, cached or not.
"""


def run(options: argparse.Namespace, servers: Servers, _logs: Path) -> Report:
    """Fill, time, run steadily, rebuild, move. Raises BrokenBenchmark on a server that is not ours."""
    if servers.postgres is None:
        raise BrokenBenchmark("rows changes the server's settings and fills it: unset DATABASE_URL.")
    call_command("migrate", verbosity=0, run_syncdb=True)
    for statement in SETTINGS:
        execute(FEW, statement)
    many = options.keys or (QUICK_ROWS if options.quick else MANY_ROWS)
    samples, seconds = (50, SECONDS_QUICK) if options.quick else (500, SECONDS)
    verbs = {rows: _measured(rows, samples) for rows in (FEW_ROWS, many)}
    ways = {way: _say(way, steady(parameters, seconds)) for way, parameters in WAYS.items()}
    rebuilt = _say("rebuilt", _rebuilt())
    _filled(min(many, MOVED_ROWS))
    move = moved(min(many, MOVED_ROWS), samples)
    partitioned = move.pop("verbs")
    data = {"verbs": verbs, "steady": ways, "rebuilt": rebuilt, "move": move, "partitioned": partitioned}
    text = [*(_table(f"{rows:,} keys", taken) for rows, taken in verbs.items())]
    text += [_lines(ways | {"rebuilt": rebuilt, "moved": move}), _table("16 partitions", partitioned), NOTES]
    machine = machine_now() | {"load at the end": load()}
    return Report("\n\n".join([*text, machine_line(machine)]), _plain(data), _broken(data))


def _filled(rows: int) -> None:
    for setting in ("off", "on"):
        execute(FEW, f"ALTER SYSTEM SET autovacuum = {setting}")
        execute(FEW, "SELECT pg_reload_conf()")
        if setting == "off":
            execute(FEW, f"TRUNCATE {TABLE}")
            print(fill(FEW, rows, PAST).text, flush=True)


def _measured(rows: int, samples: int) -> dict[str, Taken]:
    _filled(rows)
    found = measure(rows, samples)
    print(_table(f"{rows:,} keys", found), flush=True)
    return found


def _rebuilt() -> dict[str, Any]:
    """The size of the indexes after the steady runs and after REINDEX, and what tasks beside it notice."""
    before, began = megabytes(), time.perf_counter()
    with tasks_beside() as beside:
        execute(FEW, f"REINDEX TABLE CONCURRENTLY {TABLE}")
    seconds, after = time.perf_counter() - began, megabytes()
    sizes = {f"{name}, MB": f"{before[name]:,.0f} -> {after[name]:,.0f}" for name in after if name != TABLE}
    return {"seconds": round(seconds, 1), "task beside, p99 ms": round(1e3 * p99(beside), 2), **sizes}


def _say(name: str, found: dict[str, Any]) -> dict[str, Any]:
    print(_lines({name: found}), flush=True)
    return found


def _lines(found: dict[str, dict[str, Any]]) -> str:
    return "\n".join(
        f"{name}: " + ", ".join(f"{key} {value}" for key, value in one.items()) for name, one in found.items()
    )


def _table(title: str, found: dict[str, Taken]) -> str:
    rows = [
        [verb, figure(one.median), figure(one.p99), str(one.pages), _accesses(one)]
        for verb, one in found.items()
    ]
    return render((title, "us, median", "p99", "pages", "reads by"), rows, texts=(0, 4))


def _accesses(one: Taken) -> str:
    """The plan in short: partitions are all alike."""
    short = {re.sub(rf"{TABLE}(_\d+)?", "keys", access) for access in one.plan}
    return ", ".join(sorted(access.replace("django_idempotent_tasks_", "") for access in short))


def _broken(data: dict[str, Any]) -> tuple[str, ...]:
    tables = [*data["verbs"].values(), data["partitioned"]]
    whole = [
        f"{verb} reads the whole table"
        for found in tables
        for verb, one in found.items()
        if any(access.startswith(f"Seq Scan {TABLE}") for access in one.plan)
    ]
    apart = data["move"]["rows apart"]
    return (*whole, *([f"{apart} rows were apart after the move"] if apart else []))


def _plain(data: dict[str, Any]) -> dict[str, Any]:
    def of(found: dict[str, Taken]) -> dict[str, Any]:
        return {verb: asdict(one) for verb, one in found.items()}

    verbs = {str(rows): of(found) for rows, found in data["verbs"].items()}
    return data | {"verbs": verbs, "partitioned": of(data["partitioned"])}
