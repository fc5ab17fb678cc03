"""One run of the crash experiments: the subjects side by side, the experiments one after the other."""

from __future__ import annotations

import gc
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TypeVar

from django.db import connections

from benchmarks.crash_table import deaths, duplicates, endings
from benchmarks.crash_table.claims import Delays, after_child_deaths, after_worker_deaths
from benchmarks.crash_table.journal import Journal
from benchmarks.crash_table.ledgers import create_ledger
from benchmarks.crash_table.outcome import Outcome
from benchmarks.crash_table.places import take_over_broker
from benchmarks.crash_table.results import Results
from benchmarks.crash_table.stage import Stage
from benchmarks.crash_table.subjects import MEASURED, Subject
from benchmarks.crash_table.watch import Watch
from benchmarks.machine.machine import load, machine_now

Experiment = Callable[[Stage], Outcome]
Part = Callable[[Stage], list[Outcome]]
T = TypeVar("T")

#: What one worker with two children goes through.
ONE_WORKER: Sequence[Experiment] = (
    deaths.child_killed,
    deaths.child_killed_early,
    endings.retried,
    endings.raised,
    duplicates.outlived,
    duplicates.in_chord,
)


@dataclass(frozen=True)
class Effort:
    """How many children and workers are killed to measure delays, and whether kombu's defaults are tried."""

    child_kills: int
    worker_kills: int
    defaults: bool


class CrashRun:
    """Runs every experiment for every subject, and says so."""

    def __init__(self, subjects: Sequence[Subject], logs: Path, effort: Effort) -> None:
        self._subjects = list(subjects)
        self._logs = logs
        self._effort = effort
        self._watch = Watch()
        self._journal = Journal(logs / "journal")
        self._began = time.monotonic()

    def run(self) -> Results:
        """Run everything. Raises BrokenBenchmark when a worker does not start, or work never begins."""
        self._journal.announce()
        take_over_broker()
        for subject in (*self._subjects, *MEASURED):
            if subject.ours:
                create_ledger(subject)
        results = Results({**machine_now(), **self._versions()})
        try:
            self._fill(results)
        except BaseException as error:
            traceback.clear_frames(error.__traceback__)
            raise
        finally:
            # Celery tells the broker of every result object that goes, so they must go before the broker.
            gc.collect()
        results.machine["load at the end"] = load()
        return results

    def _fill(self, results: Results) -> None:
        stages = [self._stage(subject) for subject in self._subjects]
        with ThreadPoolExecutor(len(stages) + len(MEASURED)) as threads:
            try:
                results.outcomes = _in_order(self._outcomes(threads, stages, results))
            finally:
                self._watch.stop()

    def _outcomes(self, threads: ThreadPoolExecutor, stages: list[Stage], results: Results) -> list[Outcome]:
        def each(text: str, part: Part) -> list[Outcome]:
            self._say(text)
            running = [threads.submit(_closing(part), stage) for stage in stages]
            return [outcome for outcomes in _all_of(running) for outcome in outcomes]

        outcomes = each(
            "children are killed, bodies retry, raise and outlive their locks, chords", _one_worker
        )
        outcomes += each("two submissions, two workers", _two_workers)
        # While the others only wait.
        delays = [threads.submit(self._delays, self._stage(subject)) for subject in MEASURED]
        outcomes += each("whole workers are killed", _killed_worker)
        if self._effort.defaults:
            outcomes += each("whole workers are killed, kombu defaults", _killed_worker_defaults)
        results.delays = [delay for measured in _all_of(delays) for delay in measured]
        return outcomes

    def _delays(self, stage: Stage) -> list[Delays]:
        return [
            after_child_deaths(stage, self._effort.child_kills),
            after_worker_deaths(stage, self._effort.worker_kills),
        ]

    def _versions(self) -> dict[str, str]:
        peers = [subject.package for subject in self._subjects if subject.package]
        return {name: version(name) for name in ("kombu", "redis", *peers)}

    def _stage(self, subject: Subject) -> Stage:
        return Stage(subject, self._journal, self._watch, self._logs)

    def _say(self, text: str) -> None:
        print(f"{time.monotonic() - self._began:5.1f} s  {text}", flush=True)


def _in_order(outcomes: list[Outcome]) -> list[Outcome]:
    """By the number of the experiment; those with the same number as they were done; then by subject."""
    done = [outcome.experiment for outcome in outcomes]
    return sorted(outcomes, key=lambda outcome: (outcome.experiment[:2], done.index(outcome.experiment)))


def _all_of(running: list[Future[list[T]]]) -> list[list[T]]:
    """The results; the first error is raised at once, while others still run."""
    done, _ = wait(running, return_when=FIRST_EXCEPTION)
    for future in done:
        future.result()
    return [future.result() for future in running]


def _one_worker(stage: Stage) -> list[Outcome]:
    with stage.worker(children=2):
        return [experiment(stage) for experiment in ONE_WORKER]


def _two_workers(stage: Stage) -> list[Outcome]:
    with stage.workers(2, children=1):
        return [duplicates.submitted_twice(stage)]


def _killed_worker(stage: Stage) -> list[Outcome]:
    return [deaths.worker_killed(stage)]


def _killed_worker_defaults(stage: Stage) -> list[Outcome]:
    return [deaths.worker_killed_defaults(stage)]


def _closing(part: Part) -> Part:
    """With an empty broker before, and without a database connection of its thread afterwards."""

    def run(stage: Stage) -> list[Outcome]:
        stage.clear()
        try:
            return part(stage)
        finally:
            connections.close_all()

    return run
