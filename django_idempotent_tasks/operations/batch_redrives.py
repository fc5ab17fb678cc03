"""Redrives what failed of a batch: dead letters where they were, or records in new chunks."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from uuid import UUID

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from ..conf import settings
from ..exceptions import IdempotencyError, PayloadTooLarge
from ..identity.text import harmless
from ..ledger.batch_values import MOVED, OUTCOMES
from ..ledger.stores import LedgerStore
from ..models import Batch, BatchChunk, BatchRecord, BatchState, ChunkState, DeadLetter
from ..sending.further_chunks import FurtherChunk, add_further
from ..states import Category
from .batch_counts import UNENDED
from .batch_decisions import moved_on, said
from .batch_following import follow_soon, settle_soon
from .dead_letters import announce_redriven, redrive_message
from .redriven_here import run_redriven
from .tasks import known_task, unknown_task

logger = logging.getLogger("django_idempotent_tasks")

#: Chunks that one query reads, and whose dead letters one transaction redrives: each has a message.
PAGE = 50


@dataclass(slots=True)
class Redriven:
    """What a redrive of a batch came to. ``left``: dead letters that cannot be sent, or records not kept."""

    chunks: int = 0
    records: int = 0
    left: int = 0
    problem: str = ""

    @property
    def done(self) -> bool:
        """Whether anything runs again."""
        return self.chunks > 0

    def words(self) -> str:
        """The same for people."""
        done = self._done() if self.chunks or not self.problem else ""
        said = [done, self.problem, self._left() if self.left else ""]
        return " ".join(filter(None, said))

    def _done(self) -> str:
        if not self.chunks:
            return _("Nothing to redrive.")
        one, many = _("Redriven: one chunk goes on."), _("Redriven: %(chunks)s chunks go on.")
        if self.records:
            one = _("Redriven: %(records)s in a new chunk.")
            many = _("Redriven: %(records)s in %(chunks)s new chunks.")
        records = ngettext("%(number)s record", "%(number)s records", self.records)
        facts = {"chunks": f"{self.chunks:,}", "records": records % {"number": f"{self.records:,}"}}
        return (one if self.chunks == 1 else many) % facts

    def _left(self) -> str:
        words = ngettext(
            "%(left)s cannot run again: its data is not stored.",
            "%(left)s cannot run again: their data is not stored.",
            self.left,
        )
        return words % {"left": f"{self.left:,}"}


def redrive(
    store: LedgerStore, batch: Batch, *, category: Category | None = None, by: str, reason: str
) -> Redriven:
    """Run the chunks again that need attention: they go on where they were, under the same keys.

    With a ``category``, give the records of ended chunks that ended so to new chunks instead, which the
    batch then waits for. A batch that has finished runs again; its callback is not sent a second time.
    Raises TypeError for ``by`` or ``reason`` that is no text.
    """
    who, why = said(by, reason)
    problem = problem_of(store, batch, category)
    if problem:
        return Redriven(problem=problem)
    done = _letters(store, batch, by=by) if category is None else _Records(store, batch, category).carry_out()
    if done.done:
        settle_soon(store, batch.id)
        facts = (who, done.chunks, batch.id, harmless(batch.task), why)
        logger.warning("%s redrove %d chunk(s) of batch %s of %s: %s", *facts)
    return done


def problem_of(store: LedgerStore, batch: Batch, category: Category | None) -> str:
    """Why a batch cannot be redriven so; empty where it can."""
    if batch.state == BatchState.CANCELLED:
        return _("the batch was cancelled")
    if category is None:
        return ""
    if batch.state == BatchState.SUBMITTING:
        return _("the batch is still being submitted: its last chunk must be in first")
    if store.connection.alias != settings().database:
        return _("calls are reserved in the database that DATABASE names, and the batch is in another one")
    if batch.template is None:
        return _("the other arguments of its calls are not stored: they are not JSON, or above MAX_PAYLOAD")
    return "" if hasattr(known_task(batch.task), "idempotency_reserving") else unknown_task()


# -- dead letters, where they were --


def _letters(store: LedgerStore, batch: Batch, *, by: str) -> Redriven:
    done, task = Redriven(), known_task(batch.task)
    for digests in _unended(store, batch.id):
        redriven, texts = [], {}
        with store.together():
            for row in DeadLetter.objects.using(store.connection.alias).filter(digest__in=digests):
                text = redrive_message(row)
                if text is None:
                    done.left += 1
                elif store.redrive(row.digest, token=row.token, message=text):
                    redriven.append(row)
                    texts[row.digest] = text
        for row in redriven:
            announce_redriven(row, by=by, using=store.connection.alias)
        follow_soon(store, *texts)
        run_redriven(store, task, texts)
        done.chunks += len(redriven)
    return done


def _unended(store: LedgerStore, batch: UUID) -> Iterator[list[UUID]]:
    """The keys of chunks that have not ended, a page at a time. A chunk's own state may be seconds late."""
    chunks = BatchChunk.objects.using(store.connection.alias).filter(batch_id=batch, state__in=UNENDED)
    rows, after = chunks.order_by("place").values_list("place", "digest"), -1
    while page := list(rows.filter(place__gt=after)[:PAGE]):
        yield [digest for _place, digest in page]
        after = page[-1][0]


# -- records of a category, in new chunks --


@dataclass(slots=True)
class _Source:
    """An ended chunk that has records of the category."""

    place: int
    indexes: list[int]
    outcomes: str


@dataclass(frozen=True, slots=True)
class _Record:
    """A record that is to run again: the ``number``-th of its chunk."""

    source: _Source
    number: int

    @property
    def index(self) -> int:
        """Its index in the batch."""
        return self.source.indexes[self.number]


class _Overtaken(Exception):
    """Another person redrives the same records, or has cancelled the batch."""


class _Records:
    """One redrive of a category."""

    def __init__(self, store: LedgerStore, batch: Batch, category: Category) -> None:
        self.store, self.batch, self.letter = store, batch, OUTCOMES[category]
        self.alias = store.connection.alias
        self.done = Redriven()

    def carry_out(self) -> Redriven:
        """Give all of them to new chunks, each in a transaction of its own, until one cannot be reserved."""
        try:
            self._add_all()
        except (IdempotencyError, TypeError) as error:  # the task is another one by now
            self.done.problem = str(error)
        return self.done

    def _add_all(self) -> None:
        waiting: list[_Record] = []
        for source in self._sources():
            numbers = [number for number, letter in enumerate(source.outcomes) if letter == self.letter]
            waiting += [_Record(source, number) for number in numbers]
            while len(waiting) >= self.batch.chunk_size:
                self._add(waiting[: self.batch.chunk_size])
                del waiting[: self.batch.chunk_size]
        self._add(waiting)

    def _sources(self) -> Iterator[_Source]:
        """The ended chunks that have such records; not those that this redrive adds."""
        chunks = BatchChunk.objects.using(self.alias).filter(batch_id=self.batch.id).order_by("place")
        last = chunks.values_list("place", flat=True).last()
        chunks = chunks.filter(state=ChunkState.ENDED, outcomes__contains=self.letter)
        after = -1
        while last is not None and (page := list(chunks.filter(place__gt=after, place__lte=last)[:PAGE])):
            for row in page:
                yield _Source(row.place, indexes_of(row), row.outcomes)
            after = page[-1].place

    def _add(self, records: list[_Record]) -> None:
        values = self._values(records)
        kept = [each for each in records if values.get(each.index) is not None]
        self.done.left += len(records) - len(kept)
        if not kept:
            return
        try:
            with self.store.together():
                further, moved = self._give(kept, values)
        except PayloadTooLarge:
            self._add_halves(kept)
        except _Overtaken:
            self.done.problem = moved_on(self.store, self.batch).problem
        else:
            for source, outcomes in moved:
                source.outcomes = outcomes
            further.run_here()
            self.done.chunks += 1
            self.done.records += len(kept)

    def _add_halves(self, records: list[_Record]) -> None:
        """Records of several chunks may be larger together than those of one."""
        half = len(records) // 2
        if not half:
            self.done.left += 1
            return
        self._add(records[:half])
        self._add(records[half:])

    def _values(self, records: list[_Record]) -> dict[int, str | None]:
        rows = BatchRecord.objects.using(self.alias).filter(batch_id=self.batch.id)
        return dict(rows.filter(index__in=[each.index for each in records]).values_list("index", "value"))

    def _give(
        self, records: list[_Record], values: Mapping[int, str | None]
    ) -> tuple[FurtherChunk, list[tuple[_Source, str]]]:
        """Reserve the call of a new chunk, and take the records from the chunks that had them."""
        entry = self.store.lock_batch(self.batch.id)
        if entry is None or entry.is_past or entry.state is BatchState.CANCELLED:
            raise _Overtaken
        task = known_task(self.batch.task)
        given = {each.index: json.loads(values[each.index] or "null") for each in records}
        further = add_further(self.store, task, entry, given, template=self.batch.template or "")
        sources = {each.source.place: each.source for each in records}.values()
        moved = [(source, self._take(source, records)) for source in sources]
        if not self.store.reopen_batch(self.batch.id, revision=entry.revision):
            raise _Overtaken
        return further, moved

    def _take(self, source: _Source, records: list[_Record]) -> str:
        """Take these records from the chunk that had them; its outcomes from now on."""
        taken = {each.number for each in records if each.source is source}
        outcomes = "".join(
            MOVED if number in taken else letter for number, letter in enumerate(source.outcomes)
        )
        indexes = [source.indexes[number] for number in sorted(taken)]
        moved = self.store.move_records(
            self.batch.id, source.place, seen=source.outcomes, outcomes=outcomes, indexes=indexes
        )
        if not moved:
            raise _Overtaken
        return outcomes


def indexes_of(chunk: BatchChunk) -> list[int]:
    """The index of each record of a chunk in its batch."""
    if chunk.indexes is None:
        return list(range(chunk.first, chunk.first + chunk.size))
    return [int(index) for index in json.loads(chunk.indexes)]
