"""Says why a call may not have its key: another payload has it, or another task or scope."""

from __future__ import annotations

from ..exceptions import KeyMismatch, KeyReused
from .rules import Step, Verdict
from .values import Call, Entry


def reused(call: Call, entry: Entry, verdict: Verdict) -> KeyReused:
    """The error for a payload that is not the key's, or a key that is not the task's."""
    if verdict.step is Step.MISMATCH:
        msg = (
            f"A message of {call.task} names a key of another task or scope, and was not run."
            " No sender of this project makes such a message: look at who can write to the broker."
        )
        return KeyMismatch(msg, task_id=call.task_id)
    msg = (
        f"Key {call.identity.key_text!r} of {call.task} was accepted with another payload"
        f" (call {entry.task_id}). Use a new key for new work."
    )
    return KeyReused(msg)
