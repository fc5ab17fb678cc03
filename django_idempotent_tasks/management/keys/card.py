"""Makes the facts and lines of one key, for ``idem keys list``, ``keys show`` and ``dead-letters show``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from ...identity.text import harmless
from ...ledger.encoding import decode_error
from ...ledger.moments import exact
from ...ledger.progress import decode_progress, progress_words
from ...ledger.rows import follow_up_of, steps_of
from ...messages.message import pretty
from ...messages.unreadable import Unreadable, parsed
from ...models import IdempotencyKey, Step
from ...operations.obstacles import obstacles
from ...operations.redaction import call_of, call_text
from ...operations.sentences import what_next
from ...operations.text import since, span
from ...operations.workers import holder
from ...states import FINISHED, Category, Reason, State


def brief(row: IdempotencyKey, now: datetime) -> dict[str, object]:
    """The facts of a key for one line of a list."""
    return {
        "digest": row.digest,
        "state": State(row.state).name.lower(),
        "task": row.task,
        "scope": row.scope,
        "key": row.key_text,
        "attempts": row.attempts,
        "crashes": row.crashes,
        "duplicates": row.duplicates,
        "task_id": row.task_id,
        "created": row.created_at,
        "age_seconds": round((exact(now) - exact(row.created_at)).total_seconds(), 1),
    }


def card(row: IdempotencyKey, now: datetime, *, payload: bool) -> dict[str, object]:
    """All facts of a key; its arguments, its result and its steps' values only with ``payload``."""
    state = State(row.state)
    held = holder(row, now) if state is State.RUNNING else None
    facts = brief(row, now) | {
        "reason": Reason(row.reason).name.lower().replace("_", " "),
        "token": row.token,
        "generation": row.generation,
        "holder": held.text if held else None,
        "holder_is_alive": held.is_alive if held else None,
        "holder_task_id": (row.runner_task_id or row.task_id) if held else None,
        "lease_left_seconds": _left(row, now) if held else None,
        "inside_external": row.in_external,
        "progress": decode_progress(row.progress),
        "steps": [_step(step, payload=payload) for step in steps_of(row, values=payload)],
        "follow_up": _follow_up(row),
        "started": row.started_at,
        "finished": row.finished_at if state in FINISHED else None,
        "signature": row.signature,
        "category": None if row.category is None else Category(row.category).name.lower(),
        "discarded": row.discarded_at,
        "error": decode_error(row.result) if state in {State.FAILED, State.REVIEW} else None,
        "stored_message": row.message is not None,
        "obstacles": obstacles(row, now),
        "next": what_next(row, now, commands=True),
    }
    return facts | (_payload(row, state) if payload else {})


def card_lines(facts: dict[str, object], row: IdempotencyKey, now: datetime) -> list[str]:
    """The facts as text, one a line, without the empty ones."""
    shown = dict(facts)
    shown["created"] = f"{since(row.created_at, now)} ago"
    for name, moment in (
        ("started", row.started_at),
        ("finished", row.finished_at),
        ("discarded", row.discarded_at),
    ):
        if shown[name] is not None:
            shown[name] = f"{since(moment, now)} ago"
    left = _left(row, now)
    if shown.pop("lease_left_seconds") is not None and left is not None:
        shown["lease"] = f"{span(left)} left" if left > 0 else f"over for {span(-left)}"
    progress = decode_progress(row.progress)
    shown["progress"] = None if progress is None else progress_words(progress)
    waiting = facts["follow_up"]
    if isinstance(waiting, dict):
        shown["follow_up"] = f"call {waiting['task_id']} has waited for {since(waiting['since'], now)}"
    for name in ("age_seconds", "holder_is_alive", "next", "obstacles", "steps"):
        del shown[name]
    payload = {name: shown.pop(name) for name in ("message", "result") if name in shown}
    lines = [f"{name.replace('_', ' ')}: {_cell(value)}" for name, value in shown.items() if _is_shown(value)]
    texts = {
        "message": call_text(row.task, row.message),
        "result": pretty(row.result) if row.result else "none",
    }
    for name in payload:
        lines += [f"{name}:", *(f"  {harmless(line)}" for line in texts[name].splitlines())]
    return [
        *lines,
        *_step_lines(facts["steps"]),
        *_obstacle_lines(facts["obstacles"]),
        f"next: {facts['next']}",
    ]


def _follow_up(row: IdempotencyKey) -> dict[str, object] | None:
    """The call that is run after the present one; None follows what has not begun."""
    waiting = None if row.state == State.PENDING else follow_up_of(row)
    return None if waiting is None else {"task_id": waiting.task_id, "since": waiting.created_at}


def _step(step: Step, *, payload: bool) -> dict[str, object]:
    seconds = (exact(step.finished_at) - exact(step.started_at)).total_seconds()
    told: dict[str, object] = {"name": step.name, "attempt": step.attempt, "seconds": round(seconds, 3)}
    return told | ({"value": _parsed(step.value)} if payload else {})


def _step_lines(steps: Any) -> Iterator[str]:
    if steps:
        yield "steps:"
    for step in steps:
        yield f"  {harmless(step['name'])}: attempt {step['attempt']}, {step['seconds']} s"
        if "value" in step:
            yield f"    {harmless(json.dumps(step['value'], default=str))}"


def _obstacle_lines(found: Any) -> Iterator[str]:
    yield from (f"in the way: {harmless(each)}" for each in found)


def _left(row: IdempotencyKey, now: datetime) -> float | None:
    return None if row.open_at is None else round((row.open_at - now).total_seconds(), 1)


def _is_shown(value: object) -> bool:
    return value is not None and value is not False


def _cell(value: object) -> str:
    return "yes" if value is True else harmless(value) or '""'


def _payload(row: IdempotencyKey, state: State) -> dict[str, object]:
    result = row.result if state is State.SUCCEEDED else None
    return {"message": call_of(row.task, row.message), "result": _parsed(result)}


def _parsed(text: str | None) -> object:
    try:
        return None if text is None else parsed(text)
    except Unreadable as error:
        return str(error)
