"""Each picture of the documentation is there, is made by a test in a browser, and shows what is there now."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT
from tests.support.pictures import PICTURES, made_from, recorded

FOLDER = ROOT / "docs" / "pictures"
_SHOWN = re.compile(r"!\[([^\]]+)\]\(([^)\s]+\.png)\)")


def test_each_picture_is_shown_and_each_that_is_shown_is_there() -> None:
    shown = {
        (page.parent / target).resolve()
        for page in PAGES
        for _words, target in _SHOWN.findall(page.read_text())
    }
    assert shown == set(FOLDER.glob("*.png"))
    assert {path.stem for path in shown} == set(PICTURES)


@pytest.mark.parametrize("picture", PICTURES)
def test_it_is_current(picture: str) -> None:
    drills = ROOT / "tests" / "admin" / "browser"
    sources = "".join(Path(path).read_text() for path in drills.glob("test_*.py"))
    assert f'picture("{picture}")' in sources, "no test makes it"
    words = "the templates or style sheets have changed: run make docs-pictures, and look at the picture"
    assert recorded(FOLDER).get(picture) == made_from(picture), words
