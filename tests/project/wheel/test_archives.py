"""What is wrong with an archive or with the papers of a release is found."""

from __future__ import annotations

import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.docs.pages import ROOT
from tests.project.wheel.archives import IN_SDIST, PACKAGE, problems
from tests.project.wheel.papers import papers_problems

INFO = "package-1.dist-info"
METADATA = "Requires-Dist: django>=5.2\nRequires-Dist: celery>=5.6\nRequires-Dist: redis; extra == 'redis'\n"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def _archives(directory: Path, *, without: str = "", beside: str = "", metadata: str = METADATA) -> list[str]:
    """What is wrong with a wheel without a file, or with one more; its sdist is as it should be."""
    wheel, sdist = directory / "a.whl", directory / "a.tar.gz"
    files = {path for path in (ROOT / PACKAGE).rglob("*") if path.is_file()}
    names = {path.relative_to(ROOT).as_posix() for path in files if "__pycache__" not in path.parts}
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in (names - {without}) | ({beside} if beside else set()):
            archive.writestr(name, "")
        archive.writestr(f"{INFO}/METADATA", metadata)
        archive.writestr(f"{INFO}/licenses/LICENSE", "")
    with tarfile.open(sdist, "w:gz") as tar:
        for name in IN_SDIST:
            tar.addfile(tarfile.TarInfo(f"package-1/{name}"))
    return problems(ROOT, wheel, sdist)


def test_archives_that_are_as_they_should_be_have_no_problem(tmp_path: Path) -> None:
    assert _archives(tmp_path) == []


@pytest.mark.parametrize("name", ["py.typed", "migrations/0001_ledger.py", "urls.py"])
def test_a_file_that_is_left_out_is_found(name: str, tmp_path: Path) -> None:
    assert f"the wheel lacks {PACKAGE}/{name}" in _archives(tmp_path, without=f"{PACKAGE}/{name}")


@pytest.mark.parametrize("name", ["benchmarks/__main__.py", "deploy/compose/compose.yaml"])
def test_a_file_that_does_not_belong_there_is_found(name: str, tmp_path: Path) -> None:
    assert f"the wheel has {name}" in _archives(tmp_path, beside=name)


def test_a_package_that_only_an_extra_may_bring_along_is_found(tmp_path: Path) -> None:
    metadata = METADATA.replace("; extra == 'redis'", "")
    assert _archives(tmp_path, metadata=metadata) == ["the wheel brings redis along, or does not"]


def _papers(*, name: str = "Django", licence: str = "MIT", version: str = PROJECT["version"]) -> list[str]:
    """What is wrong with the papers of a release; one of its parts has another name or licence."""
    release = {"name": PROJECT["name"], "version": version}
    materials = {
        "metadata": {"component": release},
        "components": [{"name": "celery"}, {"name": name}, release],
    }
    licences = [
        {"Name": part, "License": licence if part == "Django" else "BSD"}
        for part in ("Django", "celery", PROJECT["name"])
    ]
    return papers_problems(materials, licences)


def test_papers_name_the_release_each_part_and_its_licence() -> None:
    assert _papers() == []
    assert _papers(licence="UNKNOWN") == ["the licence of Django is not known"]
    assert _papers(version="0") == [f"the bill of materials is of {PROJECT['name']} 0"]
    assert _papers(name="six") == ["the bill of materials lacks django", "the list of licences lacks six"]
