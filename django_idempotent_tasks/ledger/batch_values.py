"""What the ledger takes and returns of batches: frozen values, without behaviour."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from ..models import BatchState, ChunkState
from ..states import Category

#: What ``outcomes`` says of a record: nothing yet, done, failed in one of four ways, or given to a later
#: chunk by a redrive.
NO_OUTCOME, OK, FATAL, RETRYABLE, MANUAL_REVIEW, EXPECTED, MOVED = ".", "o", "f", "r", "m", "e", "x"
LETTERS = frozenset({NO_OUTCOME, OK, FATAL, RETRYABLE, MANUAL_REVIEW, EXPECTED, MOVED})

#: The outcome of a record that failed, by its category.
OUTCOMES = {
    Category.FATAL: FATAL,
    Category.RETRYABLE: RETRYABLE,
    Category.MANUAL_REVIEW: MANUAL_REVIEW,
    Category.EXPECTED: EXPECTED,
}


@dataclass(frozen=True, slots=True)
class NewBatch:
    """A batch that is to be added; ``callback`` and ``on_attention`` are texts of prepared calls.

    ``template`` is the text of a message with what every chunk's call has beside its records.
    """

    id: UUID
    task: str
    scope: str | None
    key_text: str
    chunk_size: int
    callback: str | None = None
    on_attention: str | None = None
    template: str | None = None


@dataclass(frozen=True, slots=True)
class BatchEntry:
    """A batch's row as it was read. ``is_past``: it is past its time, and may be pruned at any moment."""

    id: UUID
    state: BatchState
    revision: int
    is_sealed: bool
    is_past: bool
    task: str
    scope: str | None
    key_text: str
    chunk_size: int
    records: int
    chunks: int


@dataclass(frozen=True, slots=True)
class NewChunk:
    """A chunk that is to be added; ``indexes`` where its records do not follow each other.

    ``digest`` and ``task_id`` are those of its reserved call, ``fingerprint`` that of its records.
    """

    place: int
    digest: UUID
    task_id: str
    first: int
    size: int
    fingerprint: UUID
    indexes: tuple[int, ...] | None = None


class Chunk(NamedTuple):
    """A chunk as it was read, with an outcome for each of its records."""

    batch: UUID
    place: int
    digest: UUID
    task_id: str
    first: int
    size: int
    indexes: tuple[int, ...] | None
    state: ChunkState
    outcomes: str

    @property
    def is_open(self) -> bool:
        """Whether its call waits or runs, as far as the batch knows."""
        return self.state is ChunkState.OPEN


@dataclass(frozen=True, slots=True)
class RecordFailure:
    """What is kept of a record that did not end well; ``value`` is its JSON text, or None."""

    index: int
    place: int
    category: Category
    attempt: int
    error: str
    description: str
    signature: str
    value: str | None


@dataclass(frozen=True, slots=True)
class Lagging:
    """A page of chunks: the keys that have moved on, and where the next page begins; None at the end."""

    digests: list[UUID]
    after: tuple[int, UUID, int] | None


@dataclass(frozen=True, slots=True)
class Settled:
    """Where a batch stands now, and the texts of the prepared calls that are to be reserved with that."""

    state: BatchState | None
    calls: tuple[str, ...] = ()
