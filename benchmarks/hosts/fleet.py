"""The workers of all hosts: started together, told what to consume, asked what they have run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.hosts.network import Host
from benchmarks.machine.celery import app
from benchmarks.machine.cpu import process_seconds
from benchmarks.throughput.fleet import BrokenBenchmark
from example_project.demo.programs import Program, stop_all, wait_until

START_SECONDS = 120.0
ANSWER_SECONDS = 20.0


class HostFleet:
    """One worker of each role on each host."""

    def __init__(self, hosts: Sequence[Host], logs: Path, environment: Mapping[str, str]) -> None:
        self._hosts = hosts
        self._logs = logs
        self._environment = environment
        self.programs: dict[str, Program] = {}

    def start(self, role: str, children: Mapping[str, int], *, run: str = "") -> None:
        """Start a worker with so many children on each host that is named."""
        for host in self._hosts:
            name = f"{role}@{host.name}"
            words = host.words("benchmarks.hosts.worker", role, host.name, str(children[host.name]))
            log = f"{role}-{host.name}{run}"
            self.programs[name] = Program(log, words, self._logs, self._environment)

    def wait_until_ready(self) -> None:
        """Return when every worker answers. Raises BrokenBenchmark where one does not."""
        missing = set(self.programs)

        def all_answer() -> bool:
            for reply in app.control.ping(timeout=1.0) or []:
                missing.difference_update(reply)
            return not missing or not all(program.running for program in self.programs.values())

        wait_until(all_answer, seconds=START_SECONDS)
        if missing:
            raise BrokenBenchmark(f"did not start: {', '.join(sorted(missing))}")

    def names(self, role: str) -> list[str]:
        """The node names of a role's workers."""
        return [name for name in self.programs if name.startswith(f"{role}@")]

    def tell(self, command: str, queue: str, names: Sequence[str]) -> None:
        """Let these workers begin (``add_consumer``) or end (``cancel_consumer``) to consume a queue."""
        tell: Any = getattr(app.control, command)
        replies = tell(queue, destination=list(names), reply=True, timeout=ANSWER_SECONDS, limit=len(names))
        done = {name for reply in replies or [] for name, said in reply.items() if "ok" in said}
        if done != set(names):
            raise BrokenBenchmark(f"{sorted(set(names) - done)} did not {command} {queue}: {replies}")

    def begun(self, role: str) -> dict[str, int]:
        """How many messages each worker of a role has begun to run, ever."""
        names = self.names(role)
        inspect: Any = app.control.inspect(names, timeout=ANSWER_SECONDS, limit=len(names))
        stats: dict[str, Any] = inspect.stats() or {}
        return {name: sum(stats.get(name, {}).get("total", {}).values()) for name in names}

    def seconds(self, role: str) -> float:
        """The processor time of a role's workers, parents and children."""
        programs = [self.programs[name] for name in self.names(role)]
        pids = [pid for program in programs for pid in (program.pid, *program.children())]
        return process_seconds(*pids) or 0.0

    def stop(self) -> None:
        """End every worker."""
        stop_all(list(self.programs.values()))
        self.programs = {}
