"""What the documentation says in Python runs, page by page, from the first block to the last."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.docs.conftest import Example
from tests.docs.pages import PAGES, TUTORIAL, Block, blocks, name_of

#: Shown by pages, and there already for their examples.
MODELS = "shop/models.py"


def _examples(page: Path) -> list[Block]:
    found = [block for block in blocks(page) if block.language == "python" and block.is_run]
    return [block for block in found if block.file != MODELS]


PAGES_IN_PROCESS = [page for page in PAGES if page != TUTORIAL and _examples(page)]


@pytest.mark.parametrize("page", PAGES_IN_PROCESS, ids=name_of)
def test_the_examples_of_a_page_run(page: Path, example: Example) -> None:
    for block in _examples(page):
        example.run(block)


def test_the_models_that_pages_show_are_those_of_their_examples() -> None:
    there = _models((Path(__file__).parent / MODELS).read_text())
    shown = [block for page in PAGES for block in blocks(page) if block.file == MODELS]
    for block in shown:
        assert _models(block.text).items() <= there.items(), block.where
    assert shown


def _models(source: str) -> dict[str, str]:
    """Each class by its name, without its docstring."""
    found = [node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)]
    return {
        node.name: "\n".join(ast.unparse(each) for each in node.body if each is not _docstring(node))
        for node in found
    }


def _docstring(node: ast.ClassDef) -> ast.stmt | None:
    return node.body[0] if ast.get_docstring(node) is not None else None


def test_few_examples_are_left_out() -> None:
    found = [block for page in PAGES for block in blocks(page) if block.language == "python"]
    left_out = [block.where for block in found if not block.is_run]
    assert len(left_out) <= len(found) / 10, left_out
