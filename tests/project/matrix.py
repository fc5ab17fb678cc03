"""Runs checks on every supported pair of Python and Django for which an interpreter is found."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import django

ROOT = Path(__file__).resolve().parents[2]
DJANGO_VERSIONS = {"3.11": ("5.2",), "3.12": ("5.2", "6.0"), "3.13": ("5.2", "6.0"), "3.14": ("5.2", "6.0")}
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
class Pair:
    """One Python with one Django, in an environment of its own beside the main one."""

    python: Path
    python_version: str
    django_version: str

    @property
    def name(self) -> str:
        """What the pair is called in the output and in the environment's directory."""
        return f"{self.python_version}-django{self.django_version}"

    def run(self, *arguments: str) -> bool:
        """Run Python with these arguments in the environment, which is made when it is missing or old."""
        print(
            f"== Python {self.python_version}, Django {self.django_version}: {' '.join(arguments)}",
            flush=True,
        )
        home = ROOT / f".venv-{self.name}"
        installed, wanted = home / ".installed", (ROOT / "pyproject.toml").read_text()
        if not installed.exists() or installed.read_text() != wanted:
            subprocess.run([self.python, "-m", "venv", "--clear", home], check=True)
            packages = ["--editable", f"{ROOT}[test]", f"django=={self.django_version}.*"]
            quietly = ["-qq", "--disable-pip-version-check"]
            subprocess.run([home / "bin" / "python", "-m", "pip", "install", *quietly, *packages], check=True)
            installed.write_text(wanted)
        return subprocess.run([home / "bin" / "python", *arguments], cwd=ROOT, check=False).returncode == 0


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


def pairs() -> list[Pair]:
    """List the pairs that can run here, and say aloud which cannot."""
    found = []
    for version, django_versions in DJANGO_VERSIONS.items():
        python = find_python(version)
        if python is None:
            print(f"== Python {version} not found: nothing checked on it", flush=True)
            continue
        found += [Pair(python, version, django_version) for django_version in django_versions]
    return found


def check_migrations() -> list[str]:
    """Look for missing migrations on each Django version: on this one here, on the others in their own.

    Gives the names of those where some are missing.
    """
    here = ".".join(map(str, django.VERSION[:2]))
    print(f"== Django {here}: {' '.join(MIGRATIONS)}", flush=True)
    done = subprocess.run([sys.executable, *MIGRATIONS], cwd=ROOT, check=False)
    failed = [f"Django {here}"] if done.returncode else []
    available = {pair.django_version: pair for pair in pairs()}
    for django_version in sorted({"5.2", "6.0"} - {here}):
        pair = available.get(django_version)
        if pair is None:
            print(f"== Django {django_version}: no Python for it, migrations not checked on it", flush=True)
        elif not pair.run(*MIGRATIONS):
            failed.append(pair.name)
    return failed


def run_fast_tests() -> list[str]:
    """Run the fast tests on each pair, and give the names of those where they fail."""
    return [pair.name for pair in pairs() if not pair.run(*FAST)]


if __name__ == "__main__":
    failures = {"migrations": check_migrations, "fast": run_fast_tests}[sys.argv[1]]()
    sys.exit(f"== failed: {', '.join(failures)}" if failures else 0)
