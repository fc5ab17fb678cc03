"""The part that runs chaos: ``python -m benchmarks chaos``."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import time
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path

from django.core.management import call_command
from django.db import connection

from benchmarks.chaos.app import app
from benchmarks.chaos.broken import BROKEN
from benchmarks.chaos.fleet import Fleet
from benchmarks.chaos.levels import Levels
from benchmarks.chaos.links import Links
from benchmarks.chaos.pace import VARIABLE, Pace
from benchmarks.chaos.page import page_of
from benchmarks.chaos.plan import Plan, Setting, Strike, make_plan
from benchmarks.chaos.possible import impossible, told, unchosen
from benchmarks.chaos.report import text_of
from benchmarks.chaos.run import Outcome, Run
from benchmarks.chaos.servers import OwnServers
from benchmarks.figures.part import Report
from benchmarks.machine.clock import Clocks
from benchmarks.machine.machine import load
from benchmarks.throughput.fleet import BrokenBenchmark
from example_project.demo.programs import wait_until
from example_project.servers import Servers
from example_project.servers.process import free_port

WORKERS, SENDERS, BEATS = 4, 2, 2
#: The workers that have a host of their own, where one can be made: two stay beside the servers.
APART = ("worker2", "worker3")
#: Seconds in which all workers of the first fleet have to be ready.
START = 120.0
QUICK = (1_000, 40)


def run(options: argparse.Namespace, servers: Servers, logs: Path) -> Report:
    """Run one seed, or with ``--minutes`` one seed after the other, and write what became of each call."""
    if not isinstance(servers, OwnServers):
        raise BrokenBenchmark("A chaos run starts servers of its own.")
    if options.broken:
        os.environ[BROKEN] = options.broken
    setting = setting_of(options)
    links = Links(servers.alone, servers.environment)
    fleet = _fleet(setting, logs, links)
    with links:
        links.make([place.name for place in fleet.of("worker") if place.name in APART])
        return _run(options, setting, servers, fleet)


def _run(options: argparse.Namespace, setting: Setting, servers: OwnServers, fleet: Fleet) -> Report:
    setting, left_out = _possible(setting, servers, fleet)
    levels, began = Levels(), time.monotonic()
    call_command("migrate", verbosity=0, run_syncdb=True)
    if setting.database == "sqlite":
        # The file may be locked by a process that this one has frozen, and lets go on again.
        connection.close()
        connection.settings_dict["OPTIONS"]["timeout"] = 1
    for sentence in told(left_out):
        print(sentence, flush=True)
    outcomes: list[Outcome] = []
    try:
        while not outcomes or time.monotonic() - began < options.minutes * 60:
            plan = make_plan(options.seed + len(outcomes), setting)
            outcomes.append(_round(plan, servers, fleet, levels, began))
            outcomes[-1].left_out = left_out
            if not outcomes[-1].verdict.holds:
                break
    finally:
        fleet.stop()
    options.report.mkdir(parents=True, exist_ok=True)
    for log in fleet.hung:
        shutil.copy(log, options.report)
    return _report(options.report, outcomes, levels)


def setting_of(options: argparse.Namespace) -> Setting:
    """What the options say."""
    calls, faults = QUICK if options.quick else (10_000, 220)
    calls = calls if options.calls is None else options.calls
    faults = faults if options.faults is None else options.faults
    chosen = [name.strip() for name in options.strikes.split(",") if name.strip()]
    return Setting(calls, faults, options.database, options.broker, unchosen(chosen))


def _possible(setting: Setting, servers: OwnServers, fleet: Fleet) -> tuple[Setting, dict[Strike, str]]:
    """The setting without what this machine does not allow, and what that is."""
    left_out = impossible(setting, servers, fleet.clocks, fleet.links)
    return replace(setting, without=(*setting.without, *left_out)), left_out


def _clocks(logs: Path) -> Clocks | None:
    """Clocks that can be set wrong, where there is a compiler to make them."""
    with suppress(LookupError):
        return Clocks(logs)
    return None


def _fleet(setting: Setting, logs: Path, links: Links) -> Fleet:
    """Workers, beats, a sweeper and a web server, which are there for all rounds."""
    fleet = Fleet(logs, clocks=_clocks(logs), links=links)
    fleet.add_workers(1 if setting.database == "sqlite" else WORKERS)
    if os.environ.get(BROKEN) != "sweeper":
        fleet.add("sweeper", ["django", "idem", "sweep"])
    os.environ["CHAOS_WEB"] = str(free_port())
    os.environ[VARIABLE] = str(logs / "pace")
    fleet.add("web", ["benchmarks.chaos.web", os.environ["CHAOS_WEB"]])
    return fleet


def _round(plan: Plan, servers: OwnServers, fleet: Fleet, levels: Levels, began: float) -> Outcome:
    def say(text: str) -> None:
        print(f"{time.monotonic() - began:6.1f} s  {text}", flush=True)

    setting = plan.setting
    say(
        f"seed {plan.seed}, plan {plan.digest}: {setting.calls} calls and {setting.faults} faults"
        f" on {setting.database} and {setting.broker}; load {load()}"
    )
    words = [str(SENDERS), str(plan.seed), json.dumps(asdict(setting)).replace("{", "{{").replace("}", "}}")]
    words.append(os.environ["CHAOS_WEB"])
    fleet.add("beat", ["django", "idem", "beat"], number=BEATS)
    fleet.add("sender", ["benchmarks.chaos.sender", "{number}", *words], number=SENDERS, ends=True)
    pace = Pace.of_environment()
    pace.struck(0, plan)
    fleet.begin_all()
    if not wait_until(lambda: len(fleet.ready_workers()) == len(fleet.of("worker")), seconds=START):
        raise BrokenBenchmark("The workers did not become ready.")
    fleet.notes = []
    return Run(plan, servers, fleet, app, levels, pace, say).carry_out()


def _report(directory: Path, outcomes: list[Outcome], levels: Levels) -> Report:
    texts, broken, data = [], [], []
    for outcome in outcomes:
        text = text_of(outcome, levels, detailed=outcome is outcomes[-1])
        name = (
            directory / f"{outcome.plan.setting.database}-{outcome.plan.setting.broker}-{outcome.plan.seed}"
        )
        name.with_suffix(".txt").write_text(text)
        name.with_suffix(".html").write_text(page_of(outcome, levels))
        texts.append(f"{text}\n\nEach call and each fault: {name.with_suffix('.html')}")
        verdict = outcome.verdict
        broken += [
            f"{what}: {each}" for what in ("lost", "doubled", "odd") for each in getattr(verdict, what)
        ]
        data.append(_data(outcome, levels))
    return Report("\n\n".join(texts), {"rounds": data}, tuple(broken))


def _data(outcome: Outcome, levels: Levels) -> dict[str, object]:
    verdict = outcome.verdict
    return {
        "seed": outcome.plan.seed,
        "plan": outcome.plan.digest,
        "setting": asdict(outcome.plan.setting),
        "seconds": outcome.seconds,
        "processor_seconds": levels.seconds(),
        "lost": verdict.lost,
        "doubled": verdict.doubled,
        "odd": verdict.odd,
        "faults": [(each.fault.strike, each.at, each.words) for each in outcome.struck],
        "notes": outcome.notes,
    }
