"""Experiments in which a process dies: a child, or a worker with all of its children."""

from __future__ import annotations

import signal
import time

from benchmarks.crash_table.deeds import Deed
from benchmarks.crash_table.guards import CAREFUL, EARLY, Variant
from benchmarks.crash_table.outcome import Outcome
from benchmarks.crash_table.stage import Stage
from benchmarks.crash_table.trial import Trial
from example_project.servers.process import send_signal

WORK, STRIKE = 5.0, 2.0
#: A message that is not acknowledged becomes visible again after so many seconds.
VISIBILITY = 10
PROMPT = {"visibility_timeout": VISIBILITY, "unacked_restore_interval": 1, "unacked_restore_throttle": 1}
DEFAULTS = {"visibility_timeout": VISIBILITY}
#: How long the end is waited for: Celery looks at its children every five seconds; a default lease is 60
#: seconds, after which the sweeper has 20; kombu looks for lost messages about every 100 seconds.
CHILD_SECONDS, WORKER_SECONDS, DEFAULT_SECONDS = 20.0, 100.0, 160.0


def child_killed(stage: Stage) -> Outcome:
    """A child is killed in the middle of its body; the message is acknowledged late."""
    return _kill_child(stage, "1a child SIGKILL", CAREFUL)


def child_killed_early(stage: Stage) -> Outcome:
    """The same with a message that is acknowledged first, as Celery does by default."""
    return _kill_child(stage, "1d child SIGKILL, acks_late off", EARLY)


def worker_killed(stage: Stage) -> Outcome:
    """A worker is killed with its children, and another one started; messages come back soon."""
    return _kill_worker(stage, "1b worker SIGKILL", PROMPT, seconds=WORKER_SECONDS)


def worker_killed_defaults(stage: Stage) -> Outcome:
    """The same with kombu's own pace of looking for lost messages."""
    return _kill_worker(stage, "1b worker SIGKILL, kombu defaults", DEFAULTS, seconds=DEFAULT_SECONDS)


def _kill_child(stage: Stage, experiment: str, variant: Variant) -> Outcome:
    trial = Trial.begin(stage, experiment, variant, Deed.WORK, WORK)
    pid = trial.strike_after(STRIKE)
    trial.struck = time.time()
    send_signal(pid, signal.SIGKILL)
    return trial.judge(seconds=CHILD_SECONDS)


def _kill_worker(stage: Stage, experiment: str, transport: dict[str, int], *, seconds: float) -> Outcome:
    with stage.worker(children=2, **transport) as victim:
        trial = Trial.begin(stage, experiment, CAREFUL, Deed.WORK, WORK)
        trial.strike_after(STRIKE)
        trial.struck = time.time()
        victim.kill()
    with stage.worker(children=2, **transport):
        return trial.judge(seconds=seconds)
