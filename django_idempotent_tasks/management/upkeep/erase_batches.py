"""``idem prune --scope``: deletes the ended batches of a departed tenant, with their chunks and records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from django.db.models import Exists, OuterRef, QuerySet

from ...models import Batch, BatchChunk, BatchRecord, BatchState, ChunkState

_ENDED = (BatchState.FINISHED, BatchState.CANCELLED)
#: The parts of a batch, which go before its row: what dies in between is found again by that.
_PARTS: tuple[tuple[str, Any], ...] = (("failed_records", BatchRecord), ("chunks", BatchChunk))


def erase_batches(
    alias: str, rows: QuerySet[Any], *, size: int, yes: bool
) -> Iterator[tuple[Counter[str], Counter[str]]]:
    """Delete the ended ones of these batches, ``size`` rows a statement; what was deleted, and what was kept.

    A batch that may still run is kept: one that has not ended, or was cancelled and has an open chunk.
    """
    ids = list(rows.values_list("pk", flat=True))
    ended = set(_ended(alias).filter(pk__in=ids).values_list("pk", flat=True))
    yield Counter(), _counted("batches", len(ids) - len(ended))
    for batch in ended:
        for name, model in _PARTS:
            part = model.objects.using(alias).filter(batch_id=batch)
            for number in _deleted(alias, part, size) if yes else [part.count()]:
                yield _counted(name, number), Counter()
        gone = _ended(alias).filter(pk=batch).delete()[0] if yes else 1
        yield _counted("batches", gone), _counted("batches", 1 - gone)


def _counted(name: str, number: int) -> Counter[str]:
    return Counter({name: number} if number else {})


def _deleted(alias: str, part: QuerySet[Any], size: int) -> Iterator[int]:
    """Delete the rows of a batch as long as it has ended; how many each statement has deleted."""
    still = Exists(Batch.objects.using(alias).filter(pk=OuterRef("batch_id"), state__in=_ENDED))
    while found := list(part.values_list("pk", flat=True)[:size]):
        number = part.filter(still, pk__in=found).delete()[0]
        yield number
        if not number:
            return


def _ended(alias: str) -> QuerySet[Batch]:
    """The batches that nothing writes to any more."""
    opened = BatchChunk.objects.using(alias).filter(batch_id=OuterRef("pk"), state=ChunkState.OPEN)
    ended = Batch.objects.using(alias).filter(state__in=_ENDED)
    return ended.filter(~Exists(opened))
