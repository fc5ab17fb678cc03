"""The rows of an upload that did not become registrations, as a CSV to mend and send again."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator

from .cells import guarded
from .report import Failed
from .table import COLUMNS

#: Behind the columns that are sent again: what was wrong, where. They are left out when the file is read.
WHY = ("line", "category", "error")


class _Line:
    """A file for the CSV writer that gives each line back."""

    def write(self, text: str) -> str:
        return text


def correction_lines(rows: Iterable[Failed]) -> Iterator[str]:
    """Yield a CSV line by line; no cell of it is run by a spreadsheet."""
    writer = csv.writer(_Line())
    # With the mark, spreadsheets take it for what it is: UTF-8.
    yield "\ufeff" + writer.writerow([*COLUMNS, *WHY])
    for row in rows:
        sent = [str(row.value.get(name, "")) for name in (*COLUMNS, WHY[0])]
        yield writer.writerow([guarded(cell) for cell in (*sent, row.category, row.why)])
