"""The part of a store's contract that batches use: chunks of records, their outcomes, their end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from uuid import UUID

from ..batch_values import BatchEntry, Chunk, Lagging, NewBatch, NewChunk, RecordFailure, Settled
from ..values import Claim


class Batching(ABC):
    """The key of a chunk says how its call stands; a chunk's row follows it, and the batch its chunks.

    What is counted are the rows of chunks: no row is written by every chunk that ends.
    """

    @abstractmethod
    def add_batch(self, new: NewBatch) -> bool:
        """Add a batch that is being submitted; False where it is there already."""

    @abstractmethod
    def lock_batch(self, batch: UUID) -> BatchEntry | None:
        """The batch's row, which the open transaction has to itself from now on; None without one."""

    @abstractmethod
    def next_place(self, batch: UUID) -> int:
        """The place that a further chunk gets, while the open transaction has the batch's row to itself."""

    @abstractmethod
    def chunks_at(self, batch: UUID, places: Collection[int]) -> dict[int, UUID]:
        """The fingerprints of the batch's chunks at these places, where there are any."""

    @abstractmethod
    def add_chunks(self, batch: UUID, chunks: Sequence[NewChunk]) -> None:
        """Add chunks, whose calls the open transaction has reserved."""

    @abstractmethod
    def seal_batch(self, batch: UUID, *, records: int, chunks: int) -> bool:
        """Note that all chunks are in: SUBMITTING to RUNNING; False in any other state."""

    @abstractmethod
    def chunk_of(self, digest: UUID) -> Chunk | None:
        """The chunk whose call has this key; None for a key that is no chunk's."""

    @abstractmethod
    def hold_chunk(self, claim: Claim) -> Chunk | None:
        """The claim's chunk; None when the claim has lost its key, or works on no chunk.

        From now on the claim's owner writes its outcomes, and no owner before it. What an owner has written,
        on whichever connection, has been committed or rolled back. In an open transaction nobody takes the
        key over before its end.
        """

    @abstractmethod
    def open_chunks(self, batch: UUID, *, after: int, bite: int) -> list[Chunk]:
        """At most ``bite`` OPEN chunks of the batch behind the place ``after``, in their order."""

    @abstractmethod
    def keep_outcomes(self, claim: Claim, *, outcomes: str, seen: str = "") -> bool:
        """Write the outcomes of the claim's chunk; False once a later claim holds it, or it has ended.

        The claim has held the chunk before. In an open transaction nobody else holds it before its end.
        ``seen``: only where the chunk has these outcomes still. A COMMIT that carries outcomes locks nothing
        before it arrives, which may be when its sender has given it up and gone on.
        """

    @abstractmethod
    def keep_record(self, batch: UUID, record: RecordFailure) -> None:
        """Keep what became of a record that failed, in the place of what was kept of it before."""

    @abstractmethod
    def drop_record(self, batch: UUID, index: int) -> None:
        """Forget how a record failed."""

    @abstractmethod
    def move_records(
        self, batch: UUID, place: int, *, seen: str, outcomes: str, indexes: Collection[int]
    ) -> bool:
        """Note what an ENDED chunk has left when a later one is given records of it.

        How the records of these indexes failed is forgotten. False, and nothing is written, where the chunk
        has not ended, or its outcomes are no longer ``seen``: of two redrives of a record one gets it.
        """

    @abstractmethod
    def follow_chunks(self, digests: Collection[UUID]) -> set[UUID]:
        """Let the chunks of these keys be where their keys are; the batches of the chunks that moved.

        SUCCEEDED is ENDED, and what has no outcome is done then; CANCELLED is CANCELLED; a dead letter
        NEEDS_ATTENTION, a discarded one is DISCARDED; a key that was pruned has ENDED if all its records
        have an outcome, and else is DISCARDED; any other is OPEN. An ENDED chunk stays so. A key that
        moves on meanwhile is left to whoever moves it.
        """

    @abstractmethod
    def end_chunk(self, claim: Claim, batch: UUID) -> bool | None:
        """End the chunk of a claim that has completed its key; whether the batch needs settling then.

        None, and nothing is done, where the chunk is not OPEN or its key has moved on.
        """

    @abstractmethod
    def lagging_chunks(self, *, after: tuple[int, UUID, int] | None, bite: int) -> Lagging:
        """Look at ``bite`` chunks that hold their batches, behind ``after``, for keys that have moved on."""

    @abstractmethod
    def needs_settling(self, batch: UUID) -> bool:
        """Whether :meth:`settle_batch` would change anything now."""

    @abstractmethod
    def settle_batch(self, batch: UUID, *, kept: int) -> Settled:
        """Let the batch be where its chunks are, in the open transaction.

        Sealed, and no chunk open or in need of attention: FINISHED, to be pruned after ``kept``, and the
        callback is to be reserved, once for ever. A chunk in need of attention: NEEDS_ATTENTION, and
        ``on_attention`` is to be reserved, once for ever. A CANCELLED batch is pruned ``kept`` after its
        last open chunk. Of any number at a time exactly one is given the calls.
        """

    @abstractmethod
    def reopen_batch(self, batch: UUID, *, revision: int) -> bool:
        """Let a batch run again that has, or gets, further work; False when it was cancelled or has moved on.

        Whoever has seen it at its end meanwhile does not finish it.
        """

    @abstractmethod
    def cancel_batch(self, batch: UUID, *, by: str, reason: str) -> bool:
        """Note that nobody waits for the batch any more; False when it had ended."""

    @abstractmethod
    def unsettled_batches(self, *, bite: int) -> list[UUID]:
        """At most ``bite`` batches that are not where their chunks are."""

    @abstractmethod
    def cancelled_batches(self, *, bite: int) -> list[UUID]:
        """At most ``bite`` cancelled batches that have open chunks."""

    @abstractmethod
    def prune_batches(self, *, bite: int) -> int:
        """Delete at most ``bite`` rows of batches past their time, each batch after its chunks; how many."""

    @abstractmethod
    def prune_batch(self, batch: UUID, *, bite: int) -> int:
        """The same for this batch alone; 0 where it is not past its time, or another transaction has it."""
