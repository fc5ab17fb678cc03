"""What the pages for contributors say of folders, files, floors and targets of make is as it is."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT, blocks, name_of
from tests.docs.tables import rows_of

PACKAGE = ROOT / "django_idempotent_tasks"
HOUSE = ROOT / "docs" / "explanation" / "architecture.md"
WORDS = ROOT / "docs" / "explanation" / "words.md"
CONTRIBUTING = ROOT / "docs" / "contributing.md"

_FENCED = re.compile(r"^( *)(`{3,}).*?^\1\2 *$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`([^`\n]+)`")
#: A file with an ending that files of ours have, or a folder with a slash behind it.
_PATH = re.compile(r"[\w.*-]+(?:/[\w.*-]+)*(?:\.(?:py|md|toml|html|css)|/)")
#: In commands, and with whatever stands behind the path.
_FROM_THE_ROOT = re.compile(r"(?<![\w./-])(?:benchmarks|docs|example_project|tests)/[\w./-]*\w/?")
#: Of the reader's own project, and what the targets of make leave behind.
_NOT_OURS = re.compile(r"(?:proj|shop)/|manage\.py$|build/|dist/$")


def _paths(page: Path) -> Iterator[str]:
    """Each path of this repository that a page names, from the repository's or the package's folder."""
    text = page.read_text()
    for code in _CODE.findall(_FENCED.sub("", text)):
        if _PATH.fullmatch(code) and not _NOT_OURS.match(code):
            yield code
    for block in blocks(page):
        yield from _FROM_THE_ROOT.findall(block.text)


def _is_there(path: str) -> bool:
    return any(next(folder.glob(path.rstrip("/")), None) is not None for folder in (ROOT, PACKAGE))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_each_path_that_a_page_names_is_there(page: Path) -> None:
    assert not sorted({path for path in _paths(page) if not _is_there(path)})


def test_each_function_that_the_house_names_beside_a_file_stands_in_it() -> None:
    named = re.findall(r"`([\w/]+\.py)`, `(?:\w+\.)?(\w+)`", HOUSE.read_text())
    assert len(named) > 10
    lost = [(path, name) for path, name in named if f" {name}(" not in (PACKAGE / path).read_text()]
    assert not lost


def test_paths_without_the_packages_name_are_found_on_a_page() -> None:
    assert {"running/runner.py", "ledger/stores/", "tests/management/"} <= set(_paths(HOUSE))
    assert not _is_there("running/gone.py")
    assert not _is_there("gone/")


def _tree(text: str) -> Iterator[str]:
    """The paths of an indented tree, two spaces a level; the first line is the folder of all."""
    folders: list[str] = []
    for line in text.splitlines()[1:]:
        depth = (len(line) - len(line.lstrip())) // 2
        folders[depth - 1 :] = [line.split()[0]]
        yield "".join(folders)


def _is_room(path: Path) -> bool:
    """Whether it is a folder of the repository's."""
    return path.is_dir() and path.name != "__pycache__"


def test_the_tree_of_the_house_has_each_room_that_is_there_and_none_that_is_gone() -> None:
    said = next(set(_tree(block.text)) for block in blocks(HOUSE) if block.language == "text")
    rooms = [path for path in PACKAGE.iterdir() if _is_room(path)]
    inside = [path for room in rooms if room.name not in {"static", "templates"} for path in room.iterdir()]
    folders = {f"{path.relative_to(PACKAGE).as_posix()}/" for path in (*rooms, *filter(_is_room, inside))}
    assert said == folders | {path.name for path in PACKAGE.glob("*.py")}


def test_the_floors_of_the_house_are_those_that_import_linter_checks() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    checked = [set(re.findall(r"\w+", layer)) for layer in contracts[0]["layers"]]
    floors = [row for row in rows_of(HOUSE) if len(row) == 2]
    assert [set(_CODE.findall(rooms)) for _number, rooms in floors] == checked
    assert [int(number) for number, _rooms in floors] == list(range(len(floors), 0, -1))


def test_each_word_is_defined_once_and_says_where_it_is() -> None:
    defined = [(word, where) for word, _meaning, where in (row for row in rows_of(WORDS) if len(row) == 3)]
    twice = [word for word, times in Counter(word for word, _where in defined).items() if times > 1]
    assert not twice
    for word, where in defined:
        found = _CODE.fullmatch(where)
        assert found, word
        assert (PACKAGE / found[1]).is_file(), word


def test_the_folders_of_tests_are_those_that_contributors_are_told_of() -> None:
    said = {path for path in _paths(CONTRIBUTING) if re.fullmatch(r"tests/\w+/", path)}
    assert said == {f"tests/{path.name}/" for path in (ROOT / "tests").iterdir() if _is_room(path)}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_each_target_of_make_that_a_page_names_is_there(page: Path) -> None:
    phony = re.search(r"^\.PHONY: (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert phony
    named = set(re.findall(r"(?:`|^)make ([a-z-]+)", page.read_text(), re.MULTILINE))
    assert named <= set(phony[1].split())


def test_contributors_are_told_of_each_target_of_make() -> None:
    phony = re.search(r"^\.PHONY: (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert phony
    named = set(re.findall(r"`make ([a-z-]+)", CONTRIBUTING.read_text()))
    assert named == set(phony[1].split()) - {"help"}
