"""A reader pastes each page's Python into a new project: it is imported, checked, migrated and run."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT, TUTORIAL, Block, blocks, name_of

README = ROOT / "README.md"
READER = ("-m", "tests.docs.reader")
PYTEST = ("-m", "pytest", "-q", "-c", os.devnull, "--ds=proj.settings")
#: The tutorial has a test of its own, in which its worker is killed.
PASTED = [
    page for page in PAGES if page != TUTORIAL and any(block.is_run and block.file for block in blocks(page))
]


def _python() -> Iterator[Block]:
    for page in PAGES:
        yield from (block for block in blocks(page) if block.language == "python")


def _python_says(directory: Path, *words: str) -> str:
    """What an interpreter prints in a project, without a surrounding one's settings; it ends well."""
    left_out = ("DJANGO_", "CELERY_", "DATABASE_", "PYTEST_")
    there = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    done = subprocess.run(
        [sys.executable, *words], cwd=directory, env={**there, "PYTHONPATH": str(ROOT)}, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="session")
def new_project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What each page begins with."""
    directory = tmp_path_factory.mktemp("project")
    _python_says(directory, *READER)
    return directory


@pytest.mark.parametrize("page", PASTED, ids=name_of)
def test_what_a_page_shows_runs_where_it_says(page: Path, new_project: Path, tmp_path: Path) -> None:
    project = shutil.copytree(new_project, tmp_path / "project")
    warned = _python_says(project, *READER, str(page)).partition("Checks in production:")[2].splitlines()[0]
    # The settings for production are in the README, and other pages do not repeat them.
    assert set(re.findall(r"\.([EW]\d+)", warned)) <= (set() if page == README else {"W002"})
    tests = [block.text for block in blocks(page) if block.file == "shop/tests.py"]
    if tests:
        said = _python_says(project, *PYTEST, "shop/tests.py")
        assert f"{sum(map(_count_of_tests, tests))} passed" in said


def _count_of_tests(source: str) -> int:
    return len(re.findall(r"^ *def test_", source, re.MULTILINE))


def test_each_block_says_where_it_belongs() -> None:
    lost = [block.where for block in _python() if block.is_run and not (block.file or block.is_shell)]
    assert not lost


def test_what_two_pages_show_under_one_name_in_models_or_gateway_is_the_same() -> None:
    shown: dict[tuple[str, str], str] = {}
    for block in _python():
        if block.file in {"shop/models.py", "shop/gateway.py"}:
            for name, source in _defined(block.text):
                assert shown.setdefault((block.file, name), source) == source, block.where
    assert len(shown) > 5


def _defined(source: str) -> Iterator[tuple[str, str]]:
    """Each class and function by its name."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            yield node.name, ast.unparse(node)


#: What only defines: a module of a project is imported by every command, on a database without tables too.
_DEFINITIONS = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Assign)


def test_what_pages_put_into_modules_of_a_project_calls_nothing_when_it_is_imported() -> None:
    modules = [block for block in _python() if (block.file or "").startswith("shop/")]
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
    found = list(_python())
    left_out = [block.where for block in found if not block.is_run]
    assert len(left_out) <= len(found) / 10, left_out
