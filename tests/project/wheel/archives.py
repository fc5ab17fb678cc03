"""What must be in the archives, and what must not."""

from __future__ import annotations

import re
import tarfile
import zipfile
from pathlib import Path

PACKAGE = "django_idempotent_tasks"
#: Without these nobody would notice until somebody opens the admin, or a type checker is silent.
NEEDED = ("py.typed", "migrations/0001_ledger.py", "static/", "templates/admin/", "testing/contract/")
NOT_SHIPPED = ("tests", "benchmarks", "deploy", "docs", "example_project")
#: What whoever installs the wheel gets with it; everything else is an extra.
BROUGHT = {"django", "celery"}
IN_SDIST = (
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE",
    "Makefile",
    "SECURITY.md",
    "pyproject.toml",
    "deploy/",
    "docs/",
    "tests/",
    f"{PACKAGE}/",
)


def problems(root: Path, wheel: Path, sdist: Path) -> list[str]:
    """What is wrong with them, in words; the wheel has every file of the package and nothing else."""
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
        about = {Path(name).name: name for name in archive.namelist() if name not in packed}
        brought = _brought(archive.read(about["METADATA"]).decode()) if "METADATA" in about else set()
    with tarfile.open(sdist) as tar:
        sources = {name.partition("/")[2] for name in tar.getnames()}
    files = _files(root / PACKAGE)
    found = [f"the wheel lacks {name}" for name in sorted(files - packed)]
    found += [f"the wheel has {name}" for name in sorted(packed - files)]
    found += [f"the wheel ships {name}" for name in NOT_SHIPPED if _has(packed, f"{name}/")]
    found += [f"the wheel lacks {name}" for name in ("METADATA", "LICENSE") if name not in about]
    found += [f"the wheel brings {name} along, or does not" for name in sorted(brought ^ BROUGHT)]
    found += [f"the wheel lacks {name}" for name in NEEDED if not _has(packed, f"{PACKAGE}/{name}")]
    return found + [f"the sdist lacks {name}" for name in IN_SDIST if not _has(sources, name)]


def _brought(metadata: str) -> set[str]:
    """The packages that it needs without an extra."""
    needed = re.findall(r"^Requires-Dist: ([\w-]+)([^\n]*)$", metadata, re.MULTILINE)
    return {name.lower() for name, rest in needed if "extra ==" not in rest}


def _has(names: set[str], start: str) -> bool:
    return any(name.startswith(start) for name in names)


def _files(package: Path) -> set[str]:
    """Templates, styles and translations included."""
    every = (path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(package.parent).as_posix() for path in every}
