"""Says which upload a batch is, and names its chunks: by the key that was given, or by the content."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any
from uuid import UUID

from ..identity.canonical import canonical_json
from ..identity.key import stated_digest
from ..identity.text import for_people


def batch_id(task: str, key: object, *, scope: str | None) -> UUID:
    """The id of the batch that this key of a task names. Raises InvalidKey."""
    return stated_digest(task, idempotency_key=["batch", key], scope=scope)


def chunk_key(batch: UUID, place: int) -> str:
    """The key of a chunk's call."""
    return f"{batch.hex}:{place}"


def chunk_digest(task: str, batch: UUID, place: int, *, scope: str | None) -> UUID:
    """The digest of that key."""
    return stated_digest(task, idempotency_key=chunk_key(batch, place), scope=scope)


def key_text(key: object) -> str:
    """The key of a batch, for people."""
    return for_people(str(key))


def content_of(records: Iterable[tuple[int, Any]], kwargs: Mapping[str, Any]) -> tuple[bytes, int]:
    """A hash of records, with their indexes in the batch, and the characters that they have as JSON.

    ``kwargs`` are the other arguments of each chunk. Raises InvalidKey, which names the record.
    """
    content, size = sha256(canonical_json(kwargs, where="kwargs").encode()), 0
    for index, record in records:
        text = canonical_json(record, where=f"records[{index}]")
        content.update(b"\n" + text.encode())
        size += len(text)
    return content.digest(), size
