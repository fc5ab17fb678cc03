"""Module paths of this repository that stand in strings, in documents and in settings lead somewhere."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: What is written with a dot and means no module: an app label with a model, a check or a permission.
_NO_MODULE = re.compile(r"\.(?:[EW]\d{3}|[A-Z]\w*|(?:add|change|delete|view)_\w+|__\w+__)$")
#: Names of tasks: those that no worker is to know, and those that are put together where the task is made.
_TASKS = {
    "benchmarks.nothing",
    "django_idempotent_tasks.canary",
    "benchmarks.throughput.peers.celery_once",
    "benchmarks.throughput.peers.celery_singleton",
    "tests.money",
}
_DOTTED = re.compile(
    r"(?<![\w./@-])(?:django_idempotent_tasks|example_project|tests|benchmarks)(?:\.[A-Za-z_]\w*)+"
)
_IMPORTED = re.compile(
    r"from ((?:django_idempotent_tasks|example_project|tests|benchmarks)(?:\.\w+)*) import (\w+(?:, \w+)*)"
)
_IN_A_PATH = re.compile(
    r"(?<![\w./-])(?:django_idempotent_tasks|example_project|tests|benchmarks)(?:/[\w.-]+)+\.py\b"
)
#: What names the models of its day, and the modules of its day.
_HISTORY = re.compile(r"CHANGELOG\.md|django_idempotent_tasks/migrations/")


def _texts() -> Iterator[tuple[str, str]]:
    command = ["git", "ls-files", "-co", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    for name in listed.stdout.split("\n"):
        path = ROOT / name
        if path.suffix in {".py", ".md", ".toml", ".html"} and not _HISTORY.match(name) and path.is_file():
            yield name, path.read_text(encoding="utf-8")


def _leads_somewhere(dotted: str) -> bool:
    """Whether there is such a module, or one before it that has the next name."""
    place, names = ROOT, dotted.split(".")
    for at, name in enumerate(names):
        if (place / name).is_dir():
            place = place / name
        elif (place / f"{name}.py").is_file():
            return at + 1 == len(names) or _has(place / f"{name}.py", names[at + 1])
        else:
            return _has(place / "__init__.py", name)
    return True


@cache
def _names(module: Path) -> set[str]:
    """What a module defines or imports, at any depth; ``*`` where it imports all of another one."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {alias.asname or alias.name.partition(".")[0] for alias in node.names}
    return names


def _has(module: Path, name: str) -> bool:
    return module.is_file() and not {name, "*"}.isdisjoint(_names(module))


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="a checkout lists its files")
def test_every_dotted_name_of_ours_that_is_written_somewhere_exists() -> None:
    lost = [
        f"{name}: {dotted}"
        for name, text in _texts()
        for dotted in sorted(set(_DOTTED.findall(text)))
        if dotted not in _TASKS and not _NO_MODULE.search(dotted) and not _leads_somewhere(dotted)
    ]
    assert not lost, "\n".join(lost)


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="a checkout lists its files")
def test_every_import_of_ours_exists_also_in_the_text_of_a_program() -> None:
    lost = [
        f"{name}: {module}.{imported}"
        for name, text in _texts()
        for module, names in sorted(set(_IMPORTED.findall(text)))
        for imported in names.split(", ")
        if not _leads_somewhere(f"{module}.{imported}")
    ]
    assert not lost, "\n".join(lost)


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="a checkout lists its files")
def test_every_path_of_ours_that_is_written_somewhere_exists() -> None:
    lost = [
        f"{name}: {path}"
        for name, text in _texts()
        for path in sorted(set(_IN_A_PATH.findall(text)))
        if not (ROOT / path).exists()
    ]
    assert not lost, "\n".join(lost)
