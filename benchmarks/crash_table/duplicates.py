"""Experiments in which the same work is submitted more than once."""

from __future__ import annotations

import time
from typing import Any

from celery import chord

from benchmarks.crash_table.app import GATHER
from benchmarks.crash_table.calls import describe, is_over
from benchmarks.crash_table.deeds import DONE, Deed
from benchmarks.crash_table.guards import BRIEF, CAREFUL
from benchmarks.crash_table.outcome import Outcome
from benchmarks.crash_table.stage import Stage
from benchmarks.crash_table.trial import Trial

WORK, END_SECONDS = 3.0, 15.0
#: A body that takes longer than its lock of three seconds, and when it is submitted again.
LONG_WORK, AGAIN_AT, LONG_SECONDS = 8.0, (4.0, 9.2), 40.0
MEMBER_WORK = 1.0


def submitted_twice(stage: Stage) -> Outcome:
    """Two submissions, one straight after the other, with two workers that are idle."""
    trial = Trial.begin(stage, "1c two submissions", CAREFUL, Deed.WORK, WORK)
    trial.struck = time.time()
    second = trial.send_again()
    _wait_for_all(stage, trial.key, [trial.call, second], seconds=END_SECONDS)
    remark = f"first {describe(trial.call)}; second {describe(second, first=trial.call)}"
    return trial.judge(seconds=END_SECONDS, remark=remark)


def outlived(stage: Stage) -> Outcome:
    """A body takes longer than its lock is kept, and is submitted again meanwhile and afterwards."""
    trial = Trial.begin(stage, "1d outlives its lock", BRIEF, Deed.WORK, LONG_WORK)
    trial.struck = stage.started(trial.key).at
    calls = [trial.call]
    for moment in AGAIN_AT:
        stage.watch.till(trial.struck + moment)
        calls.append(trial.send_again())
    _wait_for_all(stage, trial.key, calls, seconds=LONG_SECONDS)
    seen = ", ".join(describe(call, first=trial.call) for call in calls[1:])
    remark = f"{stage.journal.most_at_once(trial.key)} at once; others: {seen}"
    return trial.judge(seconds=END_SECONDS, remark=remark)


def in_chord(stage: Stage) -> Outcome:
    """A chord of three members, two of them the same."""
    keys = [stage.new_key("chord"), stage.new_key("chord")]
    began = time.time()
    try:
        result = _send_chord(stage, [keys[0], keys[0], keys[1]], callback=keys[0])
    except Exception as error:  # noqa: BLE001  a peer may raise anything here: it is the outcome
        result, remark = None, f"sending raised {type(error).__name__}"
    end = stage.seen("gathered", keys[0], seconds=END_SECONDS)
    if result is not None:
        stage.watch.until(lambda: is_over(result), seconds=1.0 if end else 0.0)
        remark = f"callback {_with_values(result)}" if end else f"callback never called, {result.state}"
    counts = {event: sum(stage.journal.count(event, key) for key in keys) for event in ("start", "end")}
    return Outcome(
        "1d chord, a member twice",
        stage.subject.title,
        ours=stage.subject.ours,
        completed=end is not None,
        starts=counts["start"],
        ends=counts["end"],
        seconds=end.at - began if end else None,
        waited=END_SECONDS,
        remark=remark,
        pieces=len(keys),
    )


def _send_chord(stage: Stage, members: list[str], *, callback: str) -> Any:
    task = stage.task(CAREFUL)
    header = [task.s(key, Deed.WORK.value, MEMBER_WORK) for key in members]
    return chord(header, app=stage.app)(stage.app.tasks[GATHER].s(callback))


def _with_values(result: Any) -> str:
    """Whether every slot of the chord has a member's real result."""
    values = result.result if isinstance(result.result, list) else [result.result]
    real = sum(isinstance(value, str) and value.startswith(DONE) for value in values)
    return f"{result.state} with {real} of {len(values)} values real"


def _wait_for_all(stage: Stage, key: str, calls: list[Any], *, seconds: float) -> None:
    """Until every sender has the last word and nothing runs any more."""

    def is_quiet() -> bool:
        journal = stage.journal
        runs, ends = journal.count("start", key), journal.count("end", key)
        return runs > 0 and runs == ends and all(is_over(call) for call in calls)

    stage.watch.until(is_quiet, seconds=seconds)
