"""Each page of an incident has three parts and quotes what the code prints; the index names each alarm."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from django_idempotent_tasks.operations.incidents import page_of
from tests.docs.messages import is_printed, patterns
from tests.docs.pages import PAGES, ROOT, blocks, name_of

FOLDER = ROOT / "docs" / "incidents"
INDEX = FOLDER / "index.md"
INCIDENTS = [page for page in PAGES if page.parent == FOLDER and page != INDEX]
PACKAGE = ROOT / "django_idempotent_tasks"


@pytest.mark.parametrize("page", INCIDENTS, ids=name_of)
def test_it_says_what_you_see_and_why_and_what_to_do_in_fifty_lines(page: Path) -> None:
    text = page.read_text()
    assert re.findall("^## (.+)$", text, re.MULTILINE) == ["What you see", "Why", "What to do"]
    assert len(text.splitlines()) <= 50


def test_each_message_that_is_quoted_is_one_that_the_code_prints() -> None:
    printed = patterns()
    quoted = {
        line: block.where
        for page in INCIDENTS
        for block in blocks(page)
        if block.language == "text"
        for line in block.text.splitlines()
    }
    assert len(quoted) > 15
    assert [f"{where}: {line}" for line, where in quoted.items() if not is_printed(line, printed)] == []
    assert not is_printed("The sweeper is on holiday: nobody knows where it went.", printed)


def test_the_index_names_each_finding_and_each_alert() -> None:
    sources = "".join((PACKAGE / path).read_text() for path in _FINDERS)
    findings = set(re.findall(r'(?:Finding|_counted)\(\s*"(\w+)"', sources))
    alerts = set(re.findall(r"alert: (\w+)", (ROOT / "docs" / "monitoring" / "alerts.yml").read_text()))
    assert len(findings) > 15
    named = set(re.findall(r"`(\w+)`", INDEX.read_text()))
    assert sorted((findings | alerts) - named) == []


def test_each_finding_links_to_the_page_of_its_row_in_the_index() -> None:
    rows = [row.split("|") for row in INDEX.read_text().splitlines() if row.startswith("| ")]
    pages = {
        name: (FOLDER / re.findall(r"\(([^)#]+\.md)", row[2])[0]).resolve().relative_to(ROOT)
        for row in rows[1:]
        for name in re.findall(r"`([a-z_]+)`", row[3])
    }
    assert len(pages) > 15
    assert {name: page_of(name) for name in pages} == {name: str(page) for name, page in pages.items()}


_FINDERS = ("operations/findings.py", "management/upkeep/status.py")
