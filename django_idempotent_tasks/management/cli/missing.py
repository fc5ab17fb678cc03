"""Reports that a key or a batch does not exist, or that a key is not a dead letter (any more)."""

from __future__ import annotations

from ...identity.text import harmless
from ...models import IdempotencyKey
from ...states import State
from .report import FINDINGS, Report


def no_key() -> Report:
    """The report where no row has the digest or key."""
    return Report({"key": None}, ["There is no such key; 'idem keys list' shows the newest."], FINDINGS)


def no_batch() -> Report:
    """The report where no batch has the id."""
    line = "There is no such batch; 'idem batches list' shows the newest."
    return Report({"batch": None}, [line], FINDINGS)


def not_dead(row: IdempotencyKey) -> Report:
    """The report on a key that waits for no decision."""
    state = State(row.state)
    holder = row.runner_task_id or row.task_id
    line = (
        f"Not a dead letter: the key is {state.name} (call {harmless(holder)});"
        f" see 'idem keys show {row.digest}'."
    )
    facts = {"digest": row.digest, "outcome": "not dead", "state": state.name.lower(), "holder": holder}
    return Report(facts, [line], FINDINGS)
