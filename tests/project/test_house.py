"""The package keeps to its rooms: few names, few floors, few arrows, and a short way for one delivery."""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import django_idempotent_tasks
from tests.support.deliveries import APPS
from tests.support.till import Counter, Till

PACKAGE = Path(django_idempotent_tasks.__file__).parent
NAME = "django_idempotent_tasks"
#: What Django and Celery look for under these names, and what a project imports by them.
DJANGOS = {"admin", "apps", "checks", "management", "migrations", "models", "static", "templates", "urls"}
DOORS = {
    *("backend", "drf", "exceptions", "http", "log", "metrics", "mypy_plugin", "pytest_plugin"),
    *("results", "schedulers", "signals", "states", "testing"),
}
#: Values and announcements that every room may use.
GROUND = {"conf", "exceptions", "models", "signals", "states"}


def test_the_top_level_has_a_dozen_names_of_ours() -> None:
    found = {path.stem for path in PACKAGE.iterdir() if path.suffix in {"", ".py"}} - {
        "__init__",
        "__pycache__",
    }
    ours = sorted(found - DJANGOS - DOORS)
    print("ours:", *ours)
    assert len(ours) <= 12


def test_each_room_says_what_it_is_for() -> None:
    rooms = [path for path in PACKAGE.rglob("__init__.py") if "migrations" not in path.parts]
    silent = [path.parent.name for path in rooms if not ast.get_docstring(ast.parse(path.read_text()))]
    assert silent == []


def test_the_floors_are_a_dozen() -> None:
    settings = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text())
    (floors,) = (
        contract["layers"]
        for contract in settings["tool"]["importlinter"]["contracts"]
        if contract["type"] == "layers" and contract["containers"] == [NAME]
    )
    assert len(floors) <= 12


def test_few_arrows_lead_from_one_name_of_the_top_level_to_another() -> None:
    arrows = {(origin, target) for origin, target in _imports() if origin != target}
    beside = {(origin, target) for origin, target in arrows if target not in GROUND}
    print(f"{len(arrows)} arrows, {len(beside)} of them not to the ground")
    # 21 of them are of the doors to other frameworks: django.tasks, pytest, DRF, Prometheus, OpenTelemetry.
    assert len(arrows) <= 160


def _imports() -> Iterator[tuple[str, str]]:
    """Which name of the top level imports from which, also inside functions."""
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.ImportFrom):
                continue
            home = [NAME, *parts][: -node.level] if node.level else []
            names = [*home, *(node.module or "").split(".")] if node.module else home
            if names[:1] != [NAME] or parts[0] in {"__init__", "migrations"}:
                continue
            for target in names[1:2] or [alias.name for alias in node.names]:
                yield parts[0], target


@pytest.mark.django_db(transaction=True, databases=["default"], available_apps=APPS)
def test_one_delivery_of_a_leased_task_passes_few_rooms(till: Till) -> None:
    shop = Counter("default")

    @till.guarded(mode="leased")
    def sell(self: Any, order: int) -> None:  # noqa: ARG001
        with self.idempotency.complete():
            shop.write()

    till.deliver(sell, 1)  # fills what is read once in a process
    files = [file for file, _ in groupby(_files(lambda: till.deliver(sell, 2, id="B")))]
    names = [file.partition("/")[0].removesuffix(".py") for file in files]
    rooms = [name for name, _ in groupby(name for name in names if name not in GROUND)]
    print(f"{len(set(rooms))} rooms, {len(rooms)} moves between them, {len(files)} between files:")
    print(" > ".join(files))
    assert len(set(rooms)) <= 7


def _files(work: Any) -> list[str]:
    """The package's files that ``work`` enters, in order."""
    entered: list[str] = []

    def note(frame: FrameType, event: str, _argument: object) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(PACKAGE):
            entered.append(path.relative_to(PACKAGE).as_posix())

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return entered
