"""A signal that strikes inside our code: the handlers run, and so does whatever the process does next."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import billiard.common
from celery.exceptions import SoftTimeLimitExceeded

from django_idempotent_tasks.running import heartbeat
from django_idempotent_tasks.states import State
from tests.crashes.scenarios import FILES, Scenario
from tests.crashes.stage import Ends, Sight, Stage
from tests.support.glitch import Glitch, Spot, raising


def _exit() -> SystemExit:
    """What billiard's handler of SIGTERM raises in a child, after it has noted that it did."""
    billiard.common._should_have_exited[0] = True  # type: ignore[attr-defined]  # not in its stubs
    return SystemExit(-241)


@dataclass(frozen=True)
class Signal:
    """What the handler of a signal raises, and whether the process has to end by it."""

    name: str
    error_name: str
    error: Callable[[], BaseException]
    ends_process: bool = True

    def __str__(self) -> str:
        return self.name


SOFT_LIMIT = Signal("soft time limit", "SoftTimeLimitExceeded", SoftTimeLimitExceeded, ends_process=False)
SHUTDOWN = Signal("shutdown", "SystemExit", _exit)
INTERRUPT = Signal("interrupt", "KeyboardInterrupt", KeyboardInterrupt)


@dataclass(frozen=True)
class Strike:
    """One signal at one line of a scenario."""

    signal: Signal
    spot: Spot
    scenario: Scenario
    files: frozenset[str] = FILES

    def __str__(self) -> str:
        return f"{self.signal} at {self.spot}"

    def faults(self, alias: str) -> list[str]:
        """Let it happen and recover; what is wrong then."""
        stage = self.scenario.begin(alias)
        stage.world.ended.clear()
        before = stage.look()
        code = stage.world.run_mortal(lambda: self._happen(stage))
        if code != 0:
            return [f"the process ended with {code}"]
        left, ended = stage.look(), stage.ended
        found = [*self._faults_of_ending(ended, left), *self._faults_of_process(stage.world.noted)]
        if left.state is State.RUNNING and left.token != before.token:
            found.append("its lease has to run out")
        recovered = stage.recover()
        if left.state is State.SUCCEEDED and recovered != left:
            found.append(f"the key was {left} and is {recovered}")
        return found + stage.faults(self._ends(ended))

    # -- in the process that is struck --

    def _happen(self, stage: Stage) -> None:
        Glitch(self.files).strike(self.spot, raising(self.signal.error), lambda: self.scenario.act(stage))
        stage.world.tell("noted", followed=self._is_followed(stage), leases=_leases_held())

    def _is_followed(self, stage: Stage) -> bool:
        """Whether the process can do its next message, if it lives."""
        if self.signal.ends_process:
            return True
        other = Stage(stage.alias, world=stage.world)
        other.call()
        other.work()
        sight = other.look()
        return (sight.state, sight.effects) == (State.SUCCEEDED, 1)

    # -- what is seen --

    def _ends(self, ended: list[dict[str, Any]]) -> Ends:
        """How it may end: a soft time limit may be the task's failure, a shutdown never."""
        if self.signal.ends_process:
            return self.scenario.ends
        return {State.FAILED: 0, **({None: 0} if ended[0]["error"] else {}), **self.scenario.ends}

    def _faults_of_ending(self, ended: list[dict[str, Any]], left: Sight) -> list[str]:
        errors = {end["error"] for end in ended}
        expected = {None, self.signal.error_name, *self.scenario.errors}
        found = {
            f"Celery saw {errors}": not errors <= expected,
            f"the process did not end: {ended}": ended[-1]["is_exit"] is not self.signal.ends_process,
            f"the call succeeded, its key is {left}": ended[-1]["error"] is None
            and (left.state, left.effects) not in self.scenario.ends.items(),
        }
        return [fault for fault, is_so in found.items() if is_so]

    def _faults_of_process(self, notes: list[dict[str, Any]]) -> list[str]:
        found = {
            "its heart beats for an attempt that is over": notes[-1]["leases"] != 0,
            "its next message was not done": not notes[-1]["followed"],
        }
        return [fault for fault, is_so in found.items() if is_so]


def _leases_held() -> int:
    """Count what the heart keeps alive, now that nothing runs."""
    if heartbeat._heart._held:
        gc.collect()
    return len(heartbeat._heart._held)
