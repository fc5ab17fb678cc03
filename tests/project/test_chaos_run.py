"""A small chaos run from the command line, with real servers and workers."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.chaos.plan import OF_A_BROKERS_DISK, OF_A_CLOCK, OF_A_DISK, Setting, make_plan

ROOT = Path(__file__).parents[2]


pytestmark = [pytest.mark.process, pytest.mark.slow]


def run(*words: str) -> subprocess.CompletedProcess[str]:
    """A chaos run with these words."""
    return subprocess.run(
        [sys.executable, "-m", "benchmarks", "chaos", *words],
        cwd=ROOT,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_small_run_loses_and_doubles_nothing_and_says_what_became_of_each_call(tmp_path: Path) -> None:
    ran = run("--calls", "150", "--faults", "12", "--seed", "3", "--report", str(tmp_path))
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-3000:]
    assert "lost: 0, doubled: 0" in ran.stdout
    page = (tmp_path / "postgresql-redis-3.html").read_text()
    assert all(f"<td>{call.key}</td>" in page for call in make_plan(3, Setting(150, 12)).calls)


def test_full_disks_and_wrong_clocks_lose_and_double_nothing(tmp_path: Path) -> None:
    strikes = ",".join([*OF_A_DISK, *OF_A_BROKERS_DISK, *OF_A_CLOCK])
    ran = run("--calls", "150", "--faults", "10", "--strikes", strikes, "--report", str(tmp_path))
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-3000:]
    assert "lost: 0, doubled: 0" in ran.stdout


def test_without_fencing_a_run_names_the_doubled_calls_and_exits_with_1(tmp_path: Path) -> None:
    words = ["--break", "fencing", "--strikes", "child frozen", "--report", str(tmp_path)]
    ran = run("--calls", "200", "--faults", "20", "--seed", "5", *words)
    assert ran.returncode == 1, ran.stdout[-3000:] + ran.stderr[-3000:]
    assert re.search(r"BROKEN:\ndoubled: \S+ .*written 2 times", ran.stdout)
    assert re.search(r"lost: 0, doubled: [1-9]", ran.stdout)
