"""Counts the chunks and records of batches, and the batches that need a person."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import Count as Counted
from django.db.models import OuterRef, Subquery, Sum, Value
from django.db.models.functions import Length, Replace

from ..ledger.batch_values import MOVED, OK, OUTCOMES
from ..ledger.moments import shifted
from ..models import Batch, BatchChunk, BatchState, ChunkState, IdempotencyKey
from .counts import CAP, Count, capped

#: The letter of each outcome in the text of a chunk, in the order in which people see them.
LETTERS = {"ok": OK, **{category.name.lower(): letter for category, letter in OUTCOMES.items()}}
#: After so long without a new chunk nobody submits a batch any more; how many batches are looked at.
LEFT, SAMPLE = timedelta(hours=1), 100
#: Chunks in these states may still run.
UNENDED = (ChunkState.OPEN, ChunkState.NEEDS_ATTENTION)


@dataclass(frozen=True, slots=True)
class Numbers:
    """How far a batch is.

    ``outcomes`` has a number for each name of ``LETTERS``. ``open`` records have no outcome yet, ``dropped``
    ones get none, as their chunk was discarded or cancelled; ``again`` of the retryable ones are tried again
    by their chunks. A record that a redrive gave to a later chunk is counted once, there.
    """

    outcomes: Mapping[str, int] = field(default_factory=lambda: dict.fromkeys(LETTERS, 0))
    open: int = 0
    dropped: int = 0
    again: int = 0
    chunks: Mapping[ChunkState, int] = field(default_factory=lambda: dict.fromkeys(ChunkState, 0))

    @property
    def records(self) -> int:
        """How many records the chunks have."""
        return sum(self.outcomes.values()) + self.open + self.dropped

    @property
    def settled(self) -> int:
        """How many records wait for nothing."""
        return self.records - self.open - self.again

    @property
    def failed(self) -> int:
        """How many records have an outcome that is not ``ok``."""
        return sum(self.outcomes.values()) - self.outcomes["ok"]

    @property
    def attention(self) -> int:
        """How many chunks need a person."""
        return self.chunks[ChunkState.NEEDS_ATTENTION]

    def facts(self) -> dict[str, dict[str, int]]:
        """For JSON."""
        records = {**self.outcomes, "open": self.open, "dropped": self.dropped}
        chunks = {state.name.lower(): number for state, number in self.chunks.items()}
        return {"records": records, "chunks": chunks}


def share(numbers: Numbers, *, sealed: bool) -> float:
    """How far a batch is, 0 to 1: the part of the submitted records that wait for nothing any more."""
    return numbers.settled / numbers.records if numbers.records else float(sealed)


def numbers(alias: str, batches: Iterable[UUID]) -> dict[UUID, Numbers]:
    """The numbers of each of these batches. One statement, which reads their chunks."""
    wanted = list(batches)
    if not wanted:
        return {}
    chunks = BatchChunk.objects.using(alias).filter(batch_id__in=wanted).order_by()
    counted = {name: Sum(_number_of(letter)) for name, letter in {**LETTERS, "moved": MOVED}.items()}
    rows = chunks.values("batch_id", "state").annotate(number=Counted("id"), sizes=Sum("size"), **counted)
    found: dict[UUID, list[dict[str, Any]]] = {batch: [] for batch in wanted}
    for row in rows:
        found[row["batch_id"]].append(dict(row))
    return {batch: _summed(of_states) for batch, of_states in found.items()}


def _number_of(letter: str) -> Any:
    return Length("outcomes") - Length(Replace("outcomes", Value(letter), Value("")))


def _summed(rows: list[dict[str, Any]]) -> Numbers:
    outcomes, chunks = dict.fromkeys(LETTERS, 0), dict.fromkeys(ChunkState, 0)
    unended = {"open": 0, "dropped": 0, "again": 0}
    for row in rows:
        state, found = ChunkState(row["state"]), {name: int(row[name]) for name in LETTERS}
        chunks[state] += row["number"]
        for name, number in found.items():
            outcomes[name] += number
        rest = int(row["sizes"]) - int(row["moved"]) - sum(found.values())
        unended["open" if state in UNENDED else "dropped"] += rest
        unended["again"] += found["retryable"] if state in UNENDED else 0
    return Numbers(outcomes, chunks=chunks, **unended)


def need_attention(alias: str) -> Count:
    """The batches with chunks that wait for a decision."""
    found = Batch.objects.using(alias).filter(state=BatchState.NEEDS_ATTENTION)
    return capped(found.order_by().values("created_at")[: CAP + 1].count())


def left_unsealed(alias: str, now: datetime) -> Count:
    """The batches, of the ``SAMPLE`` oldest, whose submission began over ``LEFT`` ago and adds nothing."""
    edge = shifted(now, -LEFT)
    old = Batch.objects.using(alias).filter(state=BatchState.SUBMITTING, created_at__lte=edge)
    found = list(old.order_by("created_at").values_list("id", flat=True)[: SAMPLE + 1])
    if not found:
        return Count(0)
    chunks = BatchChunk.objects.using(alias).filter(batch_id=OuterRef("batch_id")).order_by("-place")
    last = BatchChunk.objects.using(alias).filter(
        batch_id__in=found[:SAMPLE], place=Subquery(chunks.values("place")[:1])
    )
    fresh = IdempotencyKey.objects.using(alias).filter(created_at__gt=edge)
    number = (
        len(found[:SAMPLE]) - fresh.filter(digest__in=list(last.values_list("digest", flat=True))).count()
    )
    return Count(number, len(found) > SAMPLE and number > 0)
