"""Builds sdist and wheel, installs the wheel in an empty environment, and follows the tutorial with it."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.docs.pages import ROOT
from tests.docs.walk import walking
from tests.project.wheel.archives import problems

TARGET = ROOT / "dist"
#: Development's packages; with one of them the environment would not be that of a user.
ABSENT = ("psycopg", "redis", "pytest", "mypy", "django_celery_beat", "django_celery_results")


def main() -> None:
    """Ends with 1, and says why, at the first thing that is not as it should be."""
    wheel, sdist = _built()
    wrong = problems(ROOT, wheel, sdist)
    if wrong:
        sys.exit("\n".join(wrong))
    with tempfile.TemporaryDirectory(prefix="dist-") as directory:
        scripts = _installed(Path(directory) / "environment", wheel)
        project = Path(directory) / "project"
        project.mkdir()
        print("Following docs/tutorial.md with the wheel ...", flush=True)
        with walking(project, scripts) as walk:
            walk.go()
    print(f"Fine: {wheel.name} and {sdist.name} in {TARGET}")


def _built() -> tuple[Path, Path]:
    shutil.rmtree(TARGET, ignore_errors=True)
    # The wheel is built from the sdist, so that the sdist is known to be whole.
    _run(sys.executable, "-m", "build", "--outdir", str(TARGET), str(ROOT))
    (wheel,), (sdist,) = TARGET.glob("*.whl"), TARGET.glob("*.tar.gz")
    return wheel, sdist


def _installed(environment: Path, wheel: Path) -> Path:
    """The directory of the scripts of an environment with the wheel and what it needs by itself."""
    _run(sys.executable, "-m", "venv", str(environment))
    scripts = environment / "bin"
    python = str(scripts / "python")
    _run(python, "-m", "pip", "install", "-qq", "--disable-pip-version-check", str(wheel))
    _run(python, "-m", "pip", "check", "--disable-pip-version-check")
    absent = f"import importlib.util as u, sys; sys.exit(any(map(u.find_spec, {ABSENT!r})))"
    _run(python, "-c", absent)
    return scripts


def _run(*words: str) -> None:
    done = subprocess.run(
        words, cwd=ROOT, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout}")


if __name__ == "__main__":
    main()
