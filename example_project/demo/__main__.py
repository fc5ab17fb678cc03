"""Runs the demonstration: ``python -m example_project.demo``; exits 1 unless nothing was lost or doubled."""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING

import django

from example_project.servers import ServerUnavailable, ensure_servers, fresh_directory

from .judging.report import Report, print_logs
from .stage import Stage, StageError, create_admin, prepare_database, set_environment

if TYPE_CHECKING:
    from collections.abc import Mapping

    from example_project.servers import Servers

Play = Callable[[argparse.Namespace, Stage, "Servers", Report], bool]
PAYMENTS, REGISTRATIONS = ACTS = ("payments", "registrations")


def main() -> int:
    """Run once and return the exit code."""
    options = _options()
    # These would end the process at once; as exceptions they stop what was started, as Ctrl-C does.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _frame: sys.exit(128 + number))
    try:
        with ExitStack() as undo:
            return 0 if _perform(options, undo) else 1
    except (StageError, ServerUnavailable) as error:
        print(error)
        return 1
    except KeyboardInterrupt:
        print("\nstopped")
        return 130


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m example_project.demo", description=__doc__)
    parser.add_argument("--act", choices=ACTS, action="append", help="play this one alone; both without it")
    parser.add_argument("--keep", action="store_true", help="leave everything running until Ctrl-C")
    parser.add_argument("--events", type=int, default=300, help="webhooks to send, a third of them repeated")
    parser.add_argument("--rate", type=float, default=25.0, help="webhooks a second")
    parser.add_argument("--rows", type=int, default=2000, help="rows of the file, a multiple of 100")
    parser.add_argument("--seed", type=int, default=0, help="chooses the traffic")
    return parser.parse_args()


def _perform(options: argparse.Namespace, undo: ExitStack) -> bool:
    """Start everything, run, and return whether the promise was kept. ``undo`` stops it all again."""
    stage = Stage(fresh_directory("demo"))
    # What is undone first was done last: the logs go when their writers are gone.
    remove_logs = undo.enter_context(ExitStack())
    remove_logs.callback(shutil.rmtree, stage.home, ignore_errors=True)
    try:
        kept = _run(options, stage, undo, Report())
    except Exception:
        print_logs(stage.started)
        remove_logs.pop_all()
        raise
    if not kept:
        print_logs(stage.started)
        remove_logs.pop_all()
    return kept


def _run(options: argparse.Namespace, stage: Stage, undo: ExitStack, report: Report) -> bool:
    report.step("starting PostgreSQL and Valkey")
    servers = undo.enter_context(ensure_servers(durable=True))
    set_environment(servers.environment, stage.gateway_port, stage.printer_port)
    django.setup()
    report.step("creating the tables and the tenants")
    secrets = prepare_database()
    undo.callback(stage.stop)
    report.step("starting the gateway, the printer, the web server and two workers")
    stage.start()
    kept = True
    plays: dict[str, Play] = {PAYMENTS: partial(_payments, secrets), REGISTRATIONS: _registrations}
    for act in options.act or ACTS:
        kept = plays[act](options, stage, servers, report) and kept
    if options.keep:
        stage.start_beats()
        _keep(stage, create_admin())
    return kept


def _payments(
    secrets: Mapping[str, str], options: argparse.Namespace, stage: Stage, servers: Servers, report: Report
) -> bool:
    from .run import Options, run  # noqa: PLC0415  (its models need the settings)

    report.step("starting two beats")
    stage.start_beats()
    size = Options(options.events, options.rate, options.seed)
    return run(stage, secrets, servers, size, report)


def _registrations(options: argparse.Namespace, stage: Stage, servers: Servers, report: Report) -> bool:
    from .registrations.act import Rows, play  # noqa: PLC0415  (its models need the settings)

    return play(stage, servers, Rows(options.rows, options.seed), report)


def _keep(stage: Stage, password: str) -> None:
    print(f"  admin     http://{stage.web_address}/admin/   login admin, password {password}")
    print(f"  a button  http://{stage.web_address}/study-plans/   to click twice; the same login")
    print(f"  an upload http://{stage.web_address}/registrations/   to send a CSV to; the same login")
    print(f"  logs      {stage.home}")
    print("  Ctrl-C stops everything.", flush=True)
    with suppress(KeyboardInterrupt):
        threading.Event().wait()


if __name__ == "__main__":
    sys.exit(main())
