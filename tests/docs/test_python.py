"""What the documentation says in Python runs, page by page, from the first block to the last."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.conftest import Example
from tests.docs.pages import PAGES, TUTORIAL, Block, blocks, name_of


def _examples(page: Path) -> list[Block]:
    return [block for block in blocks(page) if block.language == "python" and block.is_run]


PAGES_IN_PROCESS = [page for page in PAGES if page != TUTORIAL and _examples(page)]


@pytest.mark.parametrize("page", PAGES_IN_PROCESS, ids=name_of)
def test_the_examples_of_a_page_run(page: Path, example: Example) -> None:
    for block in _examples(page):
        example.run(block)


def test_few_examples_are_left_out() -> None:
    found = [block for page in PAGES for block in blocks(page) if block.language == "python"]
    left_out = [block.where for block in found if not block.is_run]
    assert len(left_out) <= len(found) / 10, left_out
