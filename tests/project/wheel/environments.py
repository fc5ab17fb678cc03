"""The archives that would be uploaded, and empty environments with the wheel."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from tests.docs.pages import ROOT
from tests.docs.walk import walking
from tests.project.wheel.archives import problems

TARGET = ROOT / "dist"
#: Development's packages; with one of them the environment would not be that of a user.
ABSENT = ("psycopg", "redis", "pytest", "mypy", "django_celery_beat", "django_celery_results")
QUIETLY = ("-qq", "--disable-pip-version-check")


def built() -> tuple[Path, Path]:
    """The wheel and the sdist; ends the program, and says why, where they are not as they should be."""
    shutil.rmtree(TARGET, ignore_errors=True)
    # The wheel is built from the sdist, so that the sdist is known to be whole.
    run(sys.executable, "-m", "build", "--outdir", TARGET, ROOT)
    (wheel,), (sdist,) = TARGET.glob("*.whl"), TARGET.glob("*.tar.gz")
    wrong = problems(ROOT, wheel, sdist)
    if wrong:
        sys.exit("\n".join(wrong))
    return wheel, sdist


def follow_the_tutorial(python: Path, wheel: Path, directory: Path) -> None:
    """With the wheel and what it needs by itself, in an empty environment of this Python."""
    scripts = directory / "environment" / "bin"
    run(python, "-m", "venv", scripts.parent)
    run(scripts / "python", "-m", "pip", "install", *QUIETLY, wheel)
    run(scripts / "python", "-m", "pip", "check", "--disable-pip-version-check")
    absent = f"import importlib.util as u, sys; sys.exit(any(map(u.find_spec, {ABSENT!r})))"
    run(scripts / "python", "-c", absent)
    project = directory / "project"
    project.mkdir()
    with walking(project, scripts) as walk:
        walk.go()


def run(*words: str | Path) -> str:
    """What a program prints; ends ours, and says why, where it fails."""
    done = subprocess.run(
        words, cwd=ROOT, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, words))} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout
