"""Probes one worker by a canary through each queue that it consumes.

Liveness is judged in favour of a worker that works: one whose places are all taken, or that works through a
backlog of the queue, takes no canary in time and is well.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from celery import Celery
from kombu import Connection

from ...identity.text import harmless
from ...messages.canary import COMMAND, Canary, send, take_back
from ...messages.relay import bounded_connection, collapse
from ..doctor.bounded import ask_all, secrets_of
from ..text import span
from .probe import Health

#: Seconds between two questions, in which the worker answers one, and after which one more canary is sent:
#: another worker that hangs may have taken the one before.
PACE, PATIENCE, AGAIN = 0.3, 2.0, 1.5
#: Seconds beyond the probe's own time after which it gives up, whatever the broker does.
SLACK = 2.0


def worker_health(
    app: Celery, name: str, *, queues: list[str] | None, within: float, max_busy: float | None
) -> Health:
    """Whether a worker takes messages from its queues, and runs them; answers within ``within`` and 2 s.

    ``queues``: those that it must consume, by default those with which it began. ``max_busy``: for how many
    seconds a body may run while it keeps the worker from taking a canary; None for any time.
    """
    probe = _Probe(app, name, queues, time.monotonic() + within, max_busy)
    got = ask_all({"worker": probe.examine}, within=within + SLACK, secrets=secrets_of(app.conf))
    if "worker" in got.silent:
        return Health("", blind=f"The broker does not answer: {got.silent['worker']}")
    health: Health = got.given["worker"]
    return health


@dataclass(slots=True)
class _Probe:
    app: Celery
    name: str
    expected: list[str] | None
    end: float
    max_busy: float | None
    sent: dict[str, list[Canary]] = field(default_factory=dict)

    def examine(self) -> Health:
        """Ask, send canaries, and ask until all have been run; raises what the transport raises."""
        connection = bounded_connection(self.app)
        try:
            connection.ensure_connection(max_retries=1, interval_start=0, timeout=1)
            first = None
            while first is None and time.monotonic() < self.end:
                first = self._answer()
            if first is None:
                return self._silent()
            if "queues" not in first:
                return self._ill([_OTHER_VERSION], first)
            if first["stopping"] or not first["consuming"]:
                return self._ill([_STOPPING if first["stopping"] else _DISCONNECTED], first)
            return self._through_each_queue(connection, first)
        finally:
            collapse(connection)

    def _through_each_queue(self, connection: Connection, first: dict[str, Any]) -> Health:
        expected = self.expected or first["began_with"] or first["queues"]
        missing = [
            f"It does not consume {harmless(each)!r}." for each in expected if each not in first["queues"]
        ]
        if not first["queues"]:
            return self._ill(["It consumes no queue."], first)
        wanted = [each for each in expected if each in first["queues"]]
        if _is_busy(first):
            return self._told(missing + self._too_long(first), first, [])
        try:
            last = self._watch(connection, wanted, first)
        finally:
            for canaries in self.sent.values():
                for each in canaries:
                    take_back(connection, each)
        stuck = [queue for queue in wanted if not self._has_run(queue, last)]
        if _is_busy(last):
            return self._told(missing + self._too_long(last), last, stuck)
        return self._told(
            missing + [_why(queue, self.sent[queue], first, last) for queue in stuck], last, stuck
        )

    def _watch(self, connection: Connection, wanted: list[str], first: dict[str, Any]) -> dict[str, Any]:
        """Send canaries until each queue's has been run, or the time is over; the last answer."""
        last, again = first, 0.0
        while time.monotonic() < self.end:
            waiting = [queue for queue in wanted if not self._has_run(queue, last)]
            if not waiting or _is_busy(last):
                break
            if time.monotonic() >= again:
                again = time.monotonic() + AGAIN
                for queue in waiting:
                    self._send(connection, queue)
            time.sleep(PACE)
            last = self._answer() or last  # a busy host may let it miss one question
        return last

    def _send(self, connection: Connection, queue: str) -> None:
        each = Canary(f"canary-{uuid4()}", self.name, queue)
        self.sent.setdefault(queue, []).append(each)
        send(self.app, connection, each)

    def _has_run(self, queue: str, seen: dict[str, Any]) -> bool:
        """Whether the worker has run one of the queue's canaries."""
        return any(each.id in seen["ran"] for each in self.sent.get(queue, ()))

    def _answer(self) -> dict[str, Any] | None:
        """What the worker says of itself; None without an answer."""
        ids = [each.id for canaries in self.sent.values() for each in canaries]
        timeout = max(min(PATIENCE, self.end - time.monotonic()), PACE)
        replies = self.app.control.broadcast(
            COMMAND, arguments={"ids": ids}, destination=[self.name], reply=True, limit=1, timeout=timeout
        )
        for reply in replies or ():
            answer = reply.get(self.name)
            if isinstance(answer, dict):
                return answer
        return None

    def _silent(self) -> Health:
        problem = (
            f"{harmless(self.name)} does not answer: it is not there, hangs, is stopped, or is shutting down."
        )
        return Health(problem, [problem], {"worker": self.name, "answers": False})

    def _ill(self, problems: list[str], seen: dict[str, Any]) -> Health:
        return self._told(problems, seen, [])

    def _too_long(self, seen: dict[str, Any]) -> list[str]:
        if self.max_busy is None or seen["oldest"] <= self.max_busy:
            return []
        return [f"All its places are taken, and a body has run for {span(seen['oldest'])}."]

    def _told(self, problems: list[str], seen: dict[str, Any], stuck: list[str]) -> Health:
        named = [f"{harmless(self.name)}: {problem}" for problem in problems if problem]
        facts = {"worker": self.name, "answers": True, **seen, "no_canary": stuck}
        for name in ("ran", "waiting", "received"):
            facts.pop(name, None)
        if named:
            return Health(named[0], named, facts)
        name, queues = harmless(self.name), ", ".join(map(harmless, seen["queues"]))
        words = f"takes and runs messages of {queues}"
        if _is_busy(seen):
            words = f"works, and has no place free for messages of {queues}"
        return Health(f"{name} {words}.", [], facts)


_STOPPING = "It is shutting down, and takes no messages."
_DISCONNECTED = "It has lost its connection to the broker, and takes no messages."
_OTHER_VERSION = "It does not know this probe: does it run another version of django-idempotent-tasks?"


def _is_busy(seen: dict[str, Any]) -> bool:
    """Whether the worker has all its places taken by bodies, or all that it may prefetch."""
    active = seen["active"]
    if active and seen["slots"] and active >= seen["slots"]:
        return True
    return bool(active and seen["prefetch"] and seen["reserved"] >= seen["prefetch"])


def _why(queue: str, canaries: list[Canary], first: dict[str, Any], last: dict[str, Any]) -> str:
    """What is wrong where no canary was run; nothing where the worker takes other messages of the queue."""
    if any(each.id in last["waiting"] for each in canaries):
        return f"It has taken a message of {harmless(queue)!r} and does not run it: its pool is stuck."
    for name in (queue, ""):
        if last["received"].get(name, 0) > first["received"].get(name, 0):
            return ""
    return f"It says that it consumes {harmless(queue)!r}, and takes no message from it."
