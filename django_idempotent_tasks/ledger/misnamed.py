"""Finds the key of a message that arrived without its identity, by the call's task id."""

from __future__ import annotations

from dataclasses import replace

from ..identity.key import Identity, row_identity
from .stores import LedgerStore
from .values import Call


class Misnamed(Exception):
    """A message came without its identity, and the ledger has its task id under another key."""

    def __init__(self, call: Call) -> None:
        super().__init__(call.task_id)
        self.call = call


def put_right(store: LedgerStore, call: Call) -> Call:
    """The call under the key whose row has its task id; unchanged where the ledger has no such row."""
    if not call.named_here:
        return call
    known = store.named(call.task, task_id=call.task_id)
    identity: Identity = call.identity if known is None else row_identity(call.task, known)
    return replace(call, identity=identity, named_here=False)
