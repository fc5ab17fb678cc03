"""Writes the failed records of a batch as CSV, which a spreadsheet shows and does not calculate."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator
from io import StringIO

from ..identity.text import harmless
from ..models import BatchRecord
from ..states import Category

#: A spreadsheet takes a cell that begins so for a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def csv_lines(rows: Iterable[BatchRecord], *, descriptions: bool, values: bool) -> Iterator[str]:
    """The head and a line for each record; ``descriptions`` and ``values`` add a column each."""
    head = ["index", "category", "error", *(["description"] if descriptions else [])]
    yield _line([*head, *(["record"] if values else [])])
    for row in rows:
        cells = [str(row.index), Category(row.category).name.lower(), row.error]
        cells += [row.description] if descriptions else []
        shown = [_as_text(cell, cell if cell.isprintable() else harmless(cell)) for cell in cells]
        yield _line([*shown, *([_record(row.value or "")] if values else [])])


def _record(value: str) -> str:
    """The record, which stays JSON where controls become escapes; empty where none is stored."""
    is_plain = value.isprintable()
    return _as_text(value, value if is_plain else "".join(map(_printable, value)))


def _printable(char: str) -> str:
    return char if char.isprintable() else json.dumps(char)[1:-1]


def _as_text(given: str, cell: str) -> str:
    return f"'{cell}" if given.startswith(_FORMULA) else cell


def _line(cells: list[str]) -> str:
    written = StringIO()
    csv.writer(written).writerow(cells)
    return written.getvalue()
