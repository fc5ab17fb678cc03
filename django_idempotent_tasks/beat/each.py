"""Reads periodic tasks row by row where one of them cannot be read, so that beat goes on with the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from django.db import DataError
from django.db import Error as DatabaseError

Row = TypeVar("Row")

#: Rows of one query.
BITE = 500


def read_each(
    ids: Sequence[int], read: Callable[[Sequence[int]], list[Row]], failed: Callable[[int, Exception], None]
) -> Iterator[Row]:
    """What ``read`` finds of these ids; ``failed`` is told of each row that makes it raise.

    A bite that raises is halved until the row is found: one among many costs a few queries more. Raises
    what the database raises of more than one row's content.
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
    """Whether the content of a row raises this, and not the database, or the way to it.

    Drivers raise DataError for a date that Python has not (PostgreSQL's ``infinity``), and SQLite's an
    OperationalError for text that is not UTF-8.
    """
    is_content = isinstance(error, DataError) or "Could not decode to UTF-8" in str(error)
    return is_content or not isinstance(error, DatabaseError)
