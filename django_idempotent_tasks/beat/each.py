"""Reads periodic tasks one by one where a row cannot be read, so that beat goes on with the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from django.db import DataError
from django.db import Error as DatabaseError

Row = TypeVar("Row")

#: How many rows one query reads.
BITE = 500


def read_each(
    ids: Sequence[int], read: Callable[[Sequence[int]], list[Row]], failed: Callable[[int, Exception], None]
) -> Iterator[Row]:
    """The rows that ``read`` returns for these ids; ``failed`` gets each id whose row makes it raise.

    A bite that raises is halved until the row is found: one bad row costs a few queries more. Raises what
    the database raises for another reason than a row's content.
    """
    for start in range(0, len(ids), BITE):
        yield from _read(ids[start : start + BITE], read, failed)


def _read(
    ids: Sequence[int], read: Callable[[Sequence[int]], list[Row]], failed: Callable[[int, Exception], None]
) -> list[Row]:
    try:
        return read(ids)
    except Exception as error:
        if not is_of_a_row(error):
            raise
        if len(ids) == 1:
            failed(ids[0], error)
            return []
    half = len(ids) // 2
    return [*_read(ids[:half], read, failed), *_read(ids[half:], read, failed)]


def is_of_a_row(error: Exception) -> bool:
    """Whether the content of a row raised this error, and not the database or the connection.

    Drivers raise DataError for a date that Python does not have (PostgreSQL's ``infinity``), SQLite's an
    OperationalError for text that is not UTF-8.
    """
    is_content = isinstance(error, DataError) or "Could not decode to UTF-8" in str(error)
    return is_content or not isinstance(error, DatabaseError)
