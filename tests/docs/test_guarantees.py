"""Each line of the guarantees is linked to tests that show it, and these are there."""

from __future__ import annotations

import re
from pathlib import Path

from tests.docs.pages import ROOT

PAGE = ROOT / "docs" / "explanation" / "guarantees.md"
_LINK = re.compile(r"\[([^\]]+)\]\(([^)]+)\)")


def _lines(page: Path, head: str) -> list[list[str]]:
    """The cells of the one table with this head."""
    table = page.read_text().partition(f"{head}\n")[2].partition("\n\n")[0]
    return [line.strip("| ").split(" | ") for line in table.splitlines()[1:]]


def test_each_guarantee_of_the_readme_is_shown_by_tests() -> None:
    promised = [cells[0] for cells in _lines(ROOT / "README.md", "| effect | guarantee | needs |")]
    shown = _lines(PAGE, "| effect | shown by |")
    assert [cells[0] for cells in shown] == promised
    assert all(_LINK.search(cells[1]) for cells in shown)


def test_each_test_that_a_guarantee_names_stands_in_the_file_of_its_link() -> None:
    links = [link for cells in _lines(PAGE, "| effect | shown by |") for link in _LINK.findall(cells[1])]
    dead = [name for name, path in links if not _stands(name, (PAGE.parent / path).resolve())]
    assert links
    assert not dead


def _stands(name: str, file: Path) -> bool:
    return file.is_file() and f"def test_{name.replace(' ', '_')}(" in file.read_text()
