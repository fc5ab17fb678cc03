"""Reads an uploaded CSV row by row: never more of it in memory than one row, and never a guess about a text.

What is wrong with the file as a whole is a :class:`TableError` that names the line and the remedy, before
anything is registered. What is wrong with one row is the row's own affair.
"""

from __future__ import annotations

import csv
import hashlib
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from .cells import unguarded

COLUMNS = ("email", "name", "ticket", "quantity")
MOST_ROWS = 100_000
#: Bytes of one row with all its columns. No read asks for more, so that a file of one line is no danger.
LONGEST_ROW = 64 * 1024
#: Characters of the four columns together: 50 of such rows fit into one call's message.
LONGEST_RECORD = 1000
DELIMITERS = ",;\t"

SAVE_AS = "save it as CSV UTF-8"


class TableError(ValueError):
    """The file is refused as it is. The message is for the organiser; nothing of the file was registered."""


@dataclass(frozen=True, slots=True)
class Summary:
    """A table that was read to its end: what it is, by its bytes, and how many rows it has."""

    digest: str
    rows: int


class Bytes(Protocol):
    """What is needed of a binary file."""

    def readline(self, size: int, /) -> bytes:
        """The next line, or so many bytes of it."""

    def seek(self, place: int, /) -> object:
        """Go there."""


class Table:
    """An open binary file, from its beginning, as rows ``{"line", "email", "name", "ticket", "quantity"}``.

    A cell that a row lacks is missing in it; cells beyond the header are counted as ``"more"``. Rows
    without any text are left out.
    """

    def __init__(self, file: Bytes, *, most_rows: int = MOST_ROWS) -> None:
        self._file = file
        self._most_rows = most_rows
        self._digest = hashlib.sha256()
        self._line, self._begins, self._row_bytes = 0, 1, 0

    def summary(self) -> Summary:
        """Read it once to its end. Raises :class:`TableError` for a file that is to be refused."""
        rows = sum(1 for _row in self.rows())
        if not rows:
            raise TableError("There is no row below the header.")
        return Summary(self._digest.hexdigest(), rows)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield row after row, from the beginning. Raises :class:`TableError` where it must not go on."""
        self._file.seek(0)
        self._digest = hashlib.sha256()
        self._line, self._begins, self._row_bytes = 0, 1, 0
        lines = self._lines()
        places, width, delimiter = self._header(next(lines, ""))
        found = 0
        for line, cells in self._cells(lines, delimiter):
            if not any(map(str.strip, cells)):
                continue
            found += 1
            if found > self._most_rows:
                raise TableError(
                    f"There are more than {self._most_rows} rows. Divide the file, and send the parts."
                )
            row = {name: unguarded(cells[place]) for name, place in places.items() if place < len(cells)}
            if sum(map(len, row.values())) > LONGEST_RECORD:
                raise TableError(f"The row at line {line} has more than {LONGEST_RECORD} characters.")
            more = {"more": len(cells) - width} if any(map(str.strip, cells[width:])) else {}
            yield {"line": line, **row, **more}

    def _lines(self) -> Iterator[str]:
        while line := self._file.readline(LONGEST_ROW + 1):
            self._line += 1
            self._row_bytes += len(line)
            if self._row_bytes > LONGEST_ROW:
                raise TableError(
                    f"The row that begins at line {self._begins} has more than {LONGEST_ROW} bytes."
                    " Is a quote not closed, or are there no line breaks?"
                )
            self._digest.update(line)
            yield self._text(line)

    def _text(self, line: bytes) -> str:
        if self._line == 1:
            if line.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) or b"\0" in line[:4]:
                raise TableError(f"The file is UTF-16: {SAVE_AS}.")
            line = line.removeprefix(BOM_UTF8)
        if b"\0" in line:
            raise TableError(f"Line {self._line} has a NUL byte, so this is no CSV file: {SAVE_AS}.")
        try:
            return line.decode()
        except UnicodeDecodeError:
            raise TableError(f"Line {self._line} is not UTF-8: {SAVE_AS}.") from None

    def _header(self, line: str) -> tuple[dict[str, int], int, str]:
        """Where each column is, how many there are, and what divides them."""
        delimiter = max(DELIMITERS, key=line.count)
        self._line = 0
        _first, cells = next(self._cells(iter([line]), delimiter))
        self._line = 1
        names = [cell.strip().casefold() for cell in cells]
        missing = [name for name in COLUMNS if name not in names]
        if missing:
            needed = ", ".join(COLUMNS)
            raise TableError(f"The first line has no column {', '.join(missing)}; it must name {needed}.")
        twice = [name for name in COLUMNS if names.count(name) > 1]
        if twice:
            raise TableError(f"The first line has the column {', '.join(twice)} twice. Remove one.")
        return {name: names.index(name) for name in COLUMNS}, len(names), delimiter

    def _cells(self, lines: Iterator[str], delimiter: str) -> Iterator[tuple[int, list[str]]]:
        """Yield the first line of each row, with its cells."""
        reader = csv.reader(lines, delimiter=delimiter, strict=True)
        while True:
            self._begins, self._row_bytes = self._line + 1, 0
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                # Behind the dash Python gives advice to programmers.
                what = str(error).partition(" - ")[0]
                raise TableError(
                    f"The row that begins at line {self._begins} cannot be read ({what}). Is a quote not"
                    " closed, or not doubled inside a quoted text?"
                ) from None
            yield self._begins, cells
