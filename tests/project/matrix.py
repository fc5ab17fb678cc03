"""Runs checks on every supported combination of Python, Django, Celery and redis-py that can be had here."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import django

ROOT = Path(__file__).resolve().parents[2]
#: Python, Django, Celery, redis-py: each pair of the first two that there is, and each version of the others.
COMBINATIONS = (
    ("3.11", "5.2", "5.7", "8"),
    ("3.11", "5.2", "5.6", "6"),
    ("3.12", "5.2", "5.7", "7"),
    ("3.12", "6.0", "5.7", "8"),
    ("3.12", "6.1", "5.7", "8"),
    ("3.13", "5.2", "5.7", "8"),
    ("3.13", "6.0", "5.6", "6"),
    ("3.13", "6.1", "5.7", "8"),
    ("3.14", "5.2", "5.7", "7"),
    ("3.14", "6.0", "5.7", "8"),
    ("3.14", "6.1", "5.7", "8"),
)
#: django-celery-beat 2.9.0 says that it takes no Django 6.1, and works with it: installed against its word.
AGAINST_ITS_WORD = {"6.1": "6.0"}
MIGRATIONS = (
    "-m",
    "django",
    "makemigrations",
    "--check",
    "--dry-run",
    "--settings",
    "tests.support.settings",
)
SPREAD = ("-n", "auto", "--maxprocesses", "4", "--dist", "loadfile")
FAST = ("-m", "pytest", "-m", "not process and not slow and not thorough", *SPREAD)


@dataclass(frozen=True)
class Combination:
    """One Python with one Django, Celery and redis-py, in an environment of its own beside the main one."""

    python: Path
    python_version: str
    django_version: str
    celery_version: str
    redis_version: str

    @property
    def name(self) -> str:
        """What the combination is called in the output and in the environment's directory."""
        others = f"celery{self.celery_version}-redis{self.redis_version}"
        return f"{self.python_version}-django{self.django_version}-{others}"

    def run(self, *arguments: str) -> bool:
        """Run Python with these arguments in the environment, which is made when it is missing or old."""
        print(f"== Python {self.name}: {' '.join(arguments)}", flush=True)
        home = ROOT / f".venv-{self.name}"
        installed, wanted = home / ".installed", (ROOT / "pyproject.toml").read_text()
        if not installed.exists() or installed.read_text() != wanted:
            subprocess.run([self.python, "-m", "venv", "--clear", home], check=True)
            self._install(home)
            installed.write_text(wanted)
        return subprocess.run([home / "bin" / "python", *arguments], cwd=ROOT, check=False).returncode == 0

    def _install(self, home: Path) -> None:
        pip = [str(home / "bin" / "python"), "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
        allowed = AGAINST_ITS_WORD.get(self.django_version, self.django_version)
        # Celery 5.6 alone would come with the kombu of 5.7.
        versions = [f"{name}=={self.celery_version}.*" for name in ("celery", "kombu")]
        versions.append(f"redis=={self.redis_version}.*")
        packages = ["--editable", f"{ROOT}[test]", f"django=={allowed}.*", *versions]
        subprocess.run([*pip, *packages], check=True)
        if allowed != self.django_version:
            subprocess.run([*pip, "--no-deps", f"django=={self.django_version}.*"], check=True)


def find_python(version: str) -> Path | None:
    """Find an interpreter that really runs: a version manager's shim may exist and refuse."""
    managers = [Path(os.environ["PYENV_ROOT"])] if "PYENV_ROOT" in os.environ else []
    managers.append(Path.home() / ".pyenv")
    managed = [path for root in managers for path in root.glob(f"versions/{version}.*/bin/python{version}")]
    on_path = shutil.which(f"python{version}")
    for candidate in [*([Path(on_path)] if on_path else []), *sorted(managed, reverse=True)]:
        tried = subprocess.run([candidate, "-c", "import ensurepip, venv"], capture_output=True, check=False)
        if tried.returncode == 0:
            return candidate
    return None


def combinations() -> list[Combination]:
    """List those that can run here, and say aloud which cannot."""
    pythons = {version: find_python(version) for version, *_rest in COMBINATIONS}
    for version in (version for version, python in pythons.items() if python is None):
        print(f"== Python {version} not found: nothing checked on it", flush=True)
    return [
        Combination(python, *versions)
        for versions in COMBINATIONS
        if (python := pythons[versions[0]]) is not None
    ]


def check_migrations() -> list[str]:
    """Look for missing migrations on each Django version: on this one here, on the others in their own.

    Gives the names of those where some are missing.
    """
    here = ".".join(map(str, django.VERSION[:2]))
    print(f"== Django {here}: {' '.join(MIGRATIONS)}", flush=True)
    done = subprocess.run([sys.executable, *MIGRATIONS], cwd=ROOT, check=False)
    failed = [f"Django {here}"] if done.returncode else []
    available = {each.django_version: each for each in combinations()}
    for django_version in sorted({version for _python, version, *_rest in COMBINATIONS} - {here}):
        found = available.get(django_version)
        if found is None:
            print(f"== Django {django_version}: no Python for it, migrations not checked on it", flush=True)
        elif not found.run(*MIGRATIONS):
            failed.append(found.name)
    return failed


def run_fast_tests() -> list[str]:
    """Run the fast tests on each combination, and give the names of those where they fail."""
    return [each.name for each in combinations() if not each.run(*FAST)]


if __name__ == "__main__":
    failures = {"migrations": check_migrations, "fast": run_fast_tests}[sys.argv[1]]()
    sys.exit(f"== failed: {', '.join(failures)}" if failures else 0)
