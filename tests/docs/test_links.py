"""Each link of the documentation leads to a file, and to a heading of it; each page is on the first page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT, name_of, prose

_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)
_FENCED = re.compile(r"^( *)(`{3,}).*?^\1\2 *$", re.MULTILINE | re.DOTALL)


def _anchors(page: Path) -> set[str]:
    """As GitHub and Sphinx make them of headings."""
    headings = _HEADING.findall(_FENCED.sub("", page.read_text()))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def _links(page: Path) -> Iterator[tuple[str, Path, str]]:
    """What leads to files of the repository: as it is written, its file, and the heading."""
    for link in _LINK.findall(prose(page)):
        if "://" not in link:
            path, _, anchor = link.partition("#")
            yield link, (page.parent / path).resolve() if path else page, anchor


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    for link, target, anchor in _links(page):
        assert target.is_file(), link
        assert target.is_relative_to(ROOT), link
        if anchor:
            assert anchor in _anchors(target), link


def test_the_first_page_and_the_readme_lead_to_every_page() -> None:
    docs = ROOT / "docs"
    incidents = docs / "incidents" / "index.md"
    below = {page for page in PAGES if page.parent == incidents.parent} - {incidents}
    pages = {page for page in PAGES if page.parent != ROOT} - below - {docs / "index.md"}
    for first, all_of_them in ((docs / "index.md", pages), (ROOT / "README.md", pages), (incidents, below)):
        assert all_of_them <= {target for _link, target, _anchor in _links(first)}
