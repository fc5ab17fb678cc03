"""The tables of a page, above all of the reference, and the values that their cells stand for."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.docs.pages import ROOT

_UNITS = {"s": 1, "h": 3600, "days": 86400, "KiB": 1024, "MiB": 1024**2}
_NUMBER = re.compile(r"(\d+)(?: (s|h|days|KiB|MiB))?")


def rows(page: str, heading: str = "") -> list[list[str]]:
    """The cells of all tables of a page, or of those below a heading; without the tables' heads."""
    text = (ROOT / "docs" / "reference" / page).read_text()
    if heading:
        text = text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
        assert text, heading
    return _cells(text)


def rows_of(page: Path) -> list[list[str]]:
    """The cells of all tables of any page; without the tables' heads."""
    return _cells(page.read_text())


def _cells(text: str) -> list[list[str]]:
    found: list[list[str]] = []
    for line in text.splitlines():
        if set(line) <= set("|-") and "-" in line:
            found.pop()  # the line before it was the table's head
        elif line.startswith("|"):
            found.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line[1:-1])])
    return found


def named(page: str, heading: str = "") -> dict[str, list[str]]:
    """Rows by the one name, in backticks, that their first cell has."""
    found = {}
    for first, *rest in rows(page, heading):
        name = re.fullmatch(r"`([^`]+)`", first)
        if name:
            assert name[1] not in found, f"{page} names {name[1]} twice"
            found[name[1]] = rest
    return found


def value(cell: str) -> object:
    """``60 s``, ``1 MiB``, ``"leased"`` or ``False`` as the code has it; other words as they are."""
    number = _NUMBER.fullmatch(cell)
    if number:
        return int(number[1]) * _UNITS.get(number[2], 1)
    code = re.fullmatch(r"`([^`]+)`", cell)
    return ast.literal_eval(code[1]) if code else cell
