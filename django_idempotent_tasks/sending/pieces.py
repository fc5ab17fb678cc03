"""Cuts the records of a batch into chunks, and says by their content which they are."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass
from itertools import islice
from typing import Any
from uuid import UUID

from django.db.models import QuerySet

from ..exceptions import ConfigurationError
from ..ledger.batch_keys import content_of, key_text

#: The records that are reserved in one transaction, and the characters of their canonical texts; at least
#: one chunk.
GROUP, BUDGET = 1000, 2 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Piece:
    """A chunk before it is reserved."""

    place: int
    first: int
    records: list[Any]
    fingerprint: UUID
    size: int

    @property
    def shown(self) -> str:
        """Which records it has, for people."""
        return f"records {self.first} to {self.first + len(self.records) - 1}"


def named_by(
    task: Any, records: Iterable[Any], batch_key: object, kwargs: Mapping[str, Any]
) -> tuple[object, str]:
    """The key of a batch, and its text for people. Raises ConfigurationError, and InvalidKey for a record."""
    if batch_key is not None:
        return batch_key, key_text(batch_key)
    if not isinstance(records, list | tuple):
        raise ConfigurationError(
            f"{task.name}: only a list says by its content which upload it is. Give batch_key, such as the"
            " upload's id."
        )
    content = content_of(enumerate(records), kwargs)[0].hex()
    return ["content", content], f"content {content[:16]}"


def reading(records: Iterable[Any]) -> AbstractContextManager[Iterable[Any]]:
    """Read a queryset in parts, and end a generator after an error."""
    if isinstance(records, QuerySet):
        records = records.iterator(chunk_size=GROUP)
    return closing(records) if isinstance(records, Generator) else nullcontext(records)


def cut(records: Iterable[Any], size: int, kwargs: Mapping[str, Any]) -> Iterator[Piece]:
    """Chunks of so many records; ``kwargs`` are the other arguments of each. Raises InvalidKey."""
    source, place, first = iter(records), 0, 0
    while part := list(islice(source, size)):
        content, length = content_of(enumerate(part, first), kwargs)
        yield Piece(place, first, part, UUID(bytes=content[:16]), length)
        place, first = place + 1, first + len(part)


def grouped(pieces: Iterator[Piece]) -> Iterator[list[Piece]]:
    """What one transaction takes each; one group without a chunk where there are no records."""
    group: list[Piece] = []
    records = size = 0
    is_first = True
    for piece in pieces:
        group.append(piece)
        records += len(piece.records)
        size += piece.size
        if records >= GROUP or size >= BUDGET:
            yield group
            group, records, size, is_first = [], 0, 0, False
    if group or is_first:
        yield group
