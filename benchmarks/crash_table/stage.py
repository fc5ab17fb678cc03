"""One subject's place: its app, its broker, its workers, and what can be seen of a piece of work."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from redis import Redis

from benchmarks.crash_table.app import make_app
from benchmarks.crash_table.guards import Variant
from benchmarks.crash_table.journal import Entry, Journal
from benchmarks.crash_table.ledgers import key_state
from benchmarks.crash_table.places import redis_url
from benchmarks.crash_table.subjects import Subject
from benchmarks.crash_table.watch import Watch
from benchmarks.throughput.fleet import START_SECONDS, BrokenBenchmark
from example_project.demo.programs import Program

QUEUE = "celery"
#: Seconds within which a body begins that nothing is in the way of.
BEGIN_SECONDS = 20.0
#: How long results are waited for once the work is over, or the queue to be empty, in seconds.
SETTLE_SECONDS = 6.0
WITHOUT_EXPIRY, GONE = -1, -2

_numbers = count(1)


class Stage:
    """Sends calls of one subject's task to workers that can be killed."""

    def __init__(self, subject: Subject, journal: Journal, watch: Watch, logs: Path) -> None:
        self.subject = subject
        self.journal = journal
        self.watch = watch
        self.app: Any = make_app(subject)
        self._redis = Redis.from_url(redis_url(subject))
        self._logs = logs

    def new_key(self, what: str) -> str:
        """A key that nothing else has."""
        return f"{self.subject.name}-{what}-{next(_numbers)}"

    def task(self, variant: Variant) -> Any:
        """The subject's task."""
        return self.app.tasks[variant.task]

    def send(self, variant: Variant, *args: object) -> Any:
        """Send one call as a user would: key, deed, seconds."""
        return self.task(variant).apply_async(args)

    @contextmanager
    def worker(self, *, children: int, **transport: int) -> Iterator[Program]:
        """Run one worker; ``transport`` are options of its broker connection."""
        with self.workers(1, children=children, **transport) as (program,):
            yield program

    @contextmanager
    def workers(self, number: int, *, children: int, **transport: int) -> Iterator[list[Program]]:
        """Run workers that take this subject's calls, from when they are ready; killed at the end."""
        programs = [self._launch(children, transport) for _ in range(number)]
        try:
            for program in programs:
                self._wait_until_ready(program)
            yield programs
        finally:
            for program in programs:
                program.kill()

    def _launch(self, children: int, transport: dict[str, int]) -> Program:
        name = f"{self.subject.name}-{next(_numbers)}"
        words = [self.subject.name, name, str(children), json.dumps(transport)]
        return Program(name, ["benchmarks.crash_table.worker", *words], self._logs)

    def _wait_until_ready(self, program: Program) -> None:
        def is_ready() -> bool:
            return " ready." in program.log.read_text(errors="replace") or not program.running

        if not self.watch.until(is_ready, seconds=START_SECONDS) or not program.running:
            raise BrokenBenchmark("\n".join([f"{program.name} did not start:", *program.last_lines()]))

    def started(self, key: str, number: int = 1, *, seconds: float = BEGIN_SECONDS) -> Entry:
        """Wait for a start of the key's body. Raises BrokenBenchmark when it does not come."""
        entry = self.seen("start", key, number, seconds=seconds)
        if entry is None:
            raise BrokenBenchmark(f"start {number} of {key} did not come within {seconds:.0f} s")
        return entry

    def seen(self, event: str, key: str, number: int = 1, *, seconds: float) -> Entry | None:
        """Wait for an event of the key; None when it does not come."""
        self.watch.until(lambda: self.journal.count(event, key) >= number, seconds=seconds)
        entries = self.journal.read(event, key)
        return entries[number - 1] if len(entries) >= number else None

    def settle(self) -> None:
        """Wait until every message is acknowledged."""
        self.watch.until(self._is_idle, seconds=SETTLE_SECONDS)

    def _is_idle(self) -> bool:
        return self._redis.llen(QUEUE) == 0 and self._redis.hlen("unacked") == 0

    def clear(self) -> None:
        """Throw messages, results and locks away; no worker may be running."""
        self._redis.flushdb()

    def left_behind(self, variant: Variant, *args: str | float) -> list[str]:
        """What is left of a call: its lock in Redis, its key in the ledger."""
        if self.subject.ours:
            return [key_state(self.subject, str(args[0]))]
        if self.subject.lock is None:
            return []
        expiry = int(self._redis.ttl(self.subject.lock(self.task(variant), *args)))
        if expiry == GONE:
            return []
        return ["lock left for ever" if expiry == WITHOUT_EXPIRY else f"lock left for {expiry} s"]
