"""The package broken on purpose, in every process of a run: its checker must then find what is wrong."""

from __future__ import annotations

import os
from collections.abc import Callable

from django_idempotent_tasks.ledger.stores import statements

#: The variable that says what is broken.
BROKEN = "CHAOS_BREAK"


def _complete_unfenced() -> None:
    """Let whoever comes complete a key, also an owner that stood still while another one completed it."""
    unfenced = statements.COMPLETE.replace(statements.OWNED, "digest = %(digest)s")
    if unfenced == statements.COMPLETE:
        msg = "COMPLETE has no condition that could be taken away."
        raise LookupError(msg)
    statements.COMPLETE = unfenced


def _nothing() -> None:
    """Change nothing here: a run without a sweeper has none, and its settings say so."""


VARIANTS: dict[str, Callable[[], None]] = {"fencing": _complete_unfenced, "sweeper": _nothing}


def break_what_is_named() -> None:
    """Break what the environment names, for as long as this process lives."""
    if name := os.environ.get(BROKEN):
        VARIANTS[name]()
