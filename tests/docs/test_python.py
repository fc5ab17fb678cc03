"""What the documentation says in Python runs, page by page, from the first block to the last."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.docs.conftest import Example
from tests.docs.pages import PAGES, TUTORIAL, Block, blocks, name_of
from tests.support.ledger.quick import EVERY_APP

#: Shown by pages, and there already for their examples.
MODELS = "shop/models.py"


def _examples(page: Path) -> list[Block]:
    found = [block for block in blocks(page) if block.language == "python" and block.is_run]
    return [block for block in found if block.file != MODELS]


PAGES_IN_PROCESS = [page for page in PAGES if page != TUTORIAL and _examples(page)]


@pytest.mark.django_db(transaction=True, available_apps=EVERY_APP)
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


#: What only defines: a module of a project is imported by every command, on a database without tables too.
_DEFINITIONS = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef, ast.Assign)


def test_what_pages_put_into_modules_of_a_project_calls_nothing_when_it_is_imported() -> None:
    modules = [block for page in PAGES for block in blocks(page) if (block.file or "").startswith("shop/")]
    for block in modules:
        calls = [node for node in ast.parse(block.text).body if not isinstance(node, _DEFINITIONS)]
        assert not calls, f"{block.where}: {ast.unparse(calls[0])}"
        assert ".delay" not in "".join(map(ast.unparse, _assigned(block.text))), block.where
    assert modules


def _assigned(source: str) -> list[ast.expr]:
    return [node.value for node in ast.parse(source).body if isinstance(node, ast.Assign)]


def test_pages_install_the_package_from_where_it_is() -> None:
    """The name is not ours in any public index: whoever registers it would be installed."""
    by_name = re.compile(r"pip install [^\n]*[ \"']django-idempotent-tasks")
    assert not [name_of(page) for page in PAGES if by_name.search(page.read_text())]


def test_few_examples_are_left_out() -> None:
    found = [block for page in PAGES for block in blocks(page) if block.language == "python"]
    left_out = [block.where for block in found if not block.is_run]
    assert len(left_out) <= len(found) / 10, left_out
