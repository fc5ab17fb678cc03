"""Knows which outcomes the ledger has for the records of a chunk, and writes them for the chunk's owner."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import UUID

from ..exceptions import LeaseLost
from ..ledger.batch_values import NO_OUTCOME, OK, RETRYABLE, Chunk
from ..ledger.stores import LedgerStore
from ..ledger.stores.connection import is_open
from ..ledger.values import Call, Claim
from ..messages.message import Message

#: The outcomes with which a record is still to be done.
LEFT = frozenset({NO_OUTCOME, RETRYABLE})
#: Those of which nothing is kept but the outcome itself.
_NOT_KEPT = frozenset({NO_OUTCOME, OK})


def index_of(chunk: Chunk, place: int) -> int:
    """The index in the batch of the record at a place of the chunk."""
    return chunk.first + place if chunk.indexes is None else chunk.indexes[place]


def places_of(chunk: Chunk, indexes: Sequence[int]) -> list[int]:
    """The places in the chunk of records by their indexes in the batch. Raises ValueError."""
    known = {index_of(chunk, place): place for place in range(chunk.size)}
    try:
        return [known[index] for index in indexes]
    except KeyError as error:
        msg = f"record() was given the index {error}, but this chunk has {min(known)} to {max(known)}."
        raise ValueError(msg) from None


def records_of(call: Call, request: Any) -> Sequence[Any]:
    """The records of a chunk as they arrived. A call that its caller runs has no message of its own."""
    if call.message:
        kwargs = Message.decode(call.task, call.message).kwargs
    else:
        kwargs = request.kwargs if request.is_eager else {}
    return kwargs.get("records") or ()


class Outcomes:
    """The outcomes of one attempt's chunk. After a commit that may have ended in either way they are read."""

    def __init__(self, store: LedgerStore, claim: Claim, lost: Callable[[], LeaseLost]) -> None:
        self._store = store
        self._claim = claim
        self._lost = lost
        self._chunk: Chunk | None = None
        self._is_read = self._is_sure = False

    @property
    def batch(self) -> UUID | None:
        """The batch of the chunk that the body works on, once it has asked for that."""
        return None if self._chunk is None else self._chunk.batch

    def chunk(self) -> Chunk | None:
        """The chunk with its outcomes; None for a call that is no chunk. Raises :class:`LeaseLost`."""
        if self._is_sure:
            return self._chunk
        if not self._is_read:
            self._chunk = self._read()
            self._is_read = True
        elif self._chunk is not None:
            with self._store.together():
                self.hold()
        # What is seen in an open transaction is neither true nor held once that is rolled back.
        self._is_sure = not is_open(self._store.connection)
        return self._chunk

    def _read(self) -> Chunk | None:
        # An attempt before this one may be about to commit a record: it has done so then, or never does.
        chunk = self._store.hold_chunk(self._claim)
        if chunk is None and self._store.chunk_of(self._claim.digest) is None:
            return None
        if chunk is not None and chunk.is_open:
            return chunk
        if chunk is not None:
            self._store.follow_chunks([chunk.digest])  # redriven, and nobody has noticed yet
        return self.hold()

    def hold(self) -> Chunk:
        """The chunk as it is, from now on this attempt's: whatever was sent for it before has ended."""
        chunk = self._store.hold_chunk(self._claim)
        if chunk is None:
            raise self._lost()
        self._chunk = chunk
        return chunk

    def write(self, chunk: Chunk, changes: Mapping[int, str]) -> Chunk:
        """Write outcomes by their places, in the open transaction; the chunk as it is after its commit.

        Nobody is sure of them before :meth:`are_those_of`. Raises :class:`LeaseLost`.
        """
        text = chunk.outcomes
        for place, outcome in changes.items():
            text = f"{text[:place]}{outcome}{text[place + 1 :]}"
        if not self._store.keep_outcomes(self._claim, outcomes=text, seen=chunk.outcomes):
            raise self._lost()
        for place, outcome in changes.items():
            if outcome == OK and chunk.outcomes[place] not in _NOT_KEPT:
                self._store.drop_record(chunk.batch, index_of(chunk, place))
        self._is_sure = False
        return chunk._replace(outcomes=text)

    def are_unsure(self) -> None:
        """Read the outcomes again before they are needed."""
        self._is_sure = False

    def are_those_of(self, chunk: Chunk) -> None:
        """Note the outcomes that have been read, or whose commit was answered."""
        self._chunk, self._is_sure = chunk, True
