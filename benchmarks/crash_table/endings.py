"""Experiments in which a body ends by itself, but not by returning."""

from __future__ import annotations

from benchmarks.crash_table.calls import describe, is_over
from benchmarks.crash_table.deeds import Deed
from benchmarks.crash_table.guards import CAREFUL
from benchmarks.crash_table.outcome import Outcome
from benchmarks.crash_table.stage import Stage
from benchmarks.crash_table.trial import Trial

END_SECONDS = 10.0


def retried(stage: Stage) -> Outcome:
    """The body asks Celery once to be run again."""
    trial = Trial.begin(stage, "1d self.retry() once", CAREFUL, Deed.RETRY, 0.0)
    trial.struck = stage.started(trial.key).at
    return trial.judge(seconds=END_SECONDS)


def raised(stage: Stage) -> Outcome:
    """The body raises, and its sender submits the same once more."""
    trial = Trial.begin(stage, "1d raises, then sent again", CAREFUL, Deed.FAIL, 0.0)
    trial.struck = stage.started(trial.key).at
    stage.watch.until(lambda: is_over(trial.call), seconds=END_SECONDS)
    # The guards let go after the state is stored, and the message is acknowledged after that.
    stage.settle()
    first = describe(trial.call)
    second = trial.send_again()
    stage.watch.until(lambda: is_over(second), seconds=END_SECONDS)
    remark = f"first {first}; second {describe(second, first=trial.call)}"
    return trial.judge(seconds=END_SECONDS, remark=remark)
