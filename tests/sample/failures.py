"""Guarded tasks that fail as their plan says, run after run, whatever attempt of theirs it is."""

from __future__ import annotations

import os
import signal
from typing import Any

from django.db import connection

from django_idempotent_tasks import ManualReview, PermanentError
from tests.sample.tasks import begin, complete_with_effect, guarded, journal, write_effect


class Trouble(Exception):
    """It may go better the next time."""


def act(task: Any, key: str, plan: list[str]) -> Any:
    """Do what the plan has for this run of the key, and complete it with an effect."""
    begin(task, key)
    run = journal().starts(key)
    journal().write("run", key, retries=task.request.retries, number=run)
    deed = plan[run - 1] if run <= len(plan) else "finish"
    _do(deed, task, key, f"{key}.{run}")
    return complete_with_effect(task, key)


def _do(deed: str, task: Any, key: str, gate: str) -> None:
    match deed:
        case "wait":
            journal().visit(gate)
        case "die":
            _die()
        case "charge and wait":
            with task.idempotency.external():
                journal().write("charged", key)
                journal().visit(gate)
        case _:
            _fail(deed, key)


def _fail(deed: str, key: str) -> None:
    match deed:
        case "fail":
            raise Trouble(f"run of {key}")
        case "permanent":
            raise PermanentError("never")
        case "review":
            raise ManualReview("a person has to look")
        case "fail and die at the record":
            connection.execute_wrappers.append(_die_at_the_record)
            raise PermanentError("never")
        case "fail and die behind the record":
            connection.run_on_commit = _DyingList()
            raise PermanentError("never")


def _die(*_args: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _die_at_the_record(execute: Any, sql: str, params: Any, many: Any, context: Any) -> Any:
    if "INSERT" in sql and "failedjob" in sql:
        _die()
    return execute(sql, params, many, context)


class _DyingList(list[Any]):
    """Django looks at the hooks of a commit right after it."""

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Any:
        _die()
        return super().__iter__()

    def pop(self, *_args: Any) -> Any:
        """Never returns."""
        _die()


working = guarded(
    name="failures.working", autoretry_for=(Trouble,), max_retries=2, default_retry_delay=0, max_crashes=3
)(act)
careful = guarded(
    name="failures.careful", autoretry_for=(Trouble,), max_retries=2, default_retry_delay=0, at_most_once=True
)(act)


@guarded(name="failures.light")
def light(self: Any, key: str) -> Any:
    """Write one effect and nothing else."""
    with self.idempotency.complete() as done:
        done.result = write_effect(self, key)
