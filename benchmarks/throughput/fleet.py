"""The workers: started together, told when to consume a queue, and asked what they have done."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.machine.celery import app
from benchmarks.throughput.worker import ROLES, Role
from example_project.demo.programs import Program, stop_all, wait_until

START_SECONDS = 90.0
ANSWER_SECONDS = 15.0


class BrokenBenchmark(RuntimeError):
    """Something did not happen exactly once, or not at all: the figures would mean nothing."""


class Fleet:
    """One worker of each role. They stay, so that a round begins with warm processes."""

    def __init__(self, logs: Path, roles: Collection[Role] = tuple(ROLES.values())) -> None:
        self._logs = logs
        self._roles = roles
        self._programs: dict[str, Program] = {}

    def start(self) -> None:
        """Start all and return when all answer."""
        for role in self._roles:
            command = ["benchmarks.throughput.worker", role.name]
            self._programs[role.name] = Program(role.name, command, self._logs)
        missing = {role.hostname for role in self._roles}

        def all_answer() -> bool:
            for reply in app.control.ping(timeout=0.5) or []:
                missing.difference_update(reply)
            return not missing or not all(program.running for program in self._programs.values())

        wait_until(all_answer, seconds=START_SECONDS)
        if missing:
            raise BrokenBenchmark(f"did not start: {', '.join(sorted(missing))}")

    def stop(self) -> None:
        """End every worker."""
        stop_all(list(self._programs.values()))

    @contextmanager
    def consuming(self, role: Role, queue: str) -> Iterator[None]:
        """Let the role's worker take from a queue, and no longer."""
        self._tell(role, "add_consumer", queue)
        try:
            yield
        finally:
            self._tell(role, "cancel_consumer", queue)

    def begun(self, role: Role, task: str) -> int:
        """How many messages of a task the role's worker has begun to run, ever."""
        inspect: Any = app.control.inspect([role.hostname], timeout=ANSWER_SECONDS, limit=1)
        totals = (inspect.stats() or {}).get(role.hostname, {}).get("total", {})
        return int(totals.get(task, 0))

    def processes(self, role: Role) -> tuple[int, list[int]]:
        """The process ids of the parent and of its pool."""
        program = self._programs[role.name]
        return program.pid, program.children()

    def complaints(self) -> list[str]:
        """What the workers logged: at their level nothing is said unless something is wrong."""
        lines = [
            f"{program.name}: {line}" for program in self._programs.values() for line in _complaints(program)
        ]
        return lines[:20]

    @staticmethod
    def _tell(role: Role, command: str, queue: str) -> None:
        tell: Any = getattr(app.control, command)
        replies = tell(queue, destination=[role.hostname], reply=True, timeout=ANSWER_SECONDS, limit=1)
        if not replies or "ok" not in replies[0].get(role.hostname, {}):
            raise BrokenBenchmark(f"{role.name} did not {command} {queue}: {replies}")


def _complaints(program: Program) -> Iterator[str]:
    marks = ("WARNING/", "ERROR/", "CRITICAL/", "Traceback")
    for line in program.log.read_text(errors="replace").splitlines():
        if any(mark in line for mark in marks):
            yield line
