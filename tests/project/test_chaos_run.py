"""A small chaos run from the command line, with real servers and workers."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.chaos.plan import (
    OF_A_BROKERS_DISK,
    OF_A_CLOCK,
    OF_A_DISK,
    OF_A_HOST,
    Setting,
    Strike,
    make_plan,
)

ROOT = Path(__file__).parents[2]


pytestmark = [pytest.mark.process, pytest.mark.slow]


def run(*words: str, before: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    """A chaos run with these words, of a program that runs it."""
    return subprocess.run(
        [*before, sys.executable, "-m", "benchmarks", "chaos", *words],
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


def test_hosts_that_are_cut_off_lose_and_double_nothing(tmp_path: Path) -> None:
    words = ["--strikes", ",".join(OF_A_HOST), "--report", str(tmp_path)]
    ran = run("--calls", "150", "--faults", "3", "--seed", "4", *words)
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-3000:]
    assert "lost: 0, doubled: 0" in ran.stdout
    if "left out here" not in ran.stdout:
        assert "Hosts that were cut off:" in ran.stdout


def test_without_the_right_to_cut_hosts_off_a_run_goes_on_and_its_last_line_says_so(tmp_path: Path) -> None:
    if shutil.which("setpriv") is None:
        pytest.skip("there is no program 'setpriv' to give the right up")
    words = ["--strikes", f"{Strike.CHILD_KILLED},{Strike.HOST_CUT}", "--report", str(tmp_path)]
    drop = ["setpriv", "--bounding-set", "-sys_admin"] if os.geteuid() == 0 else []
    ran = run("--calls", "40", "--faults", "2", *words, before=drop)
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-3000:]
    assert "left out, since no host can have a network of its own here (" in ran.stdout
    assert "lost: 0, doubled: 0; left out here: host cut off\n" in ran.stdout


def test_without_fencing_a_run_names_the_doubled_calls_and_exits_with_1(tmp_path: Path) -> None:
    words = ["--break", "fencing", "--strikes", "child frozen", "--report", str(tmp_path)]
    ran = run("--calls", "200", "--faults", "20", "--seed", "5", *words)
    assert ran.returncode == 1, ran.stdout[-3000:] + ran.stderr[-3000:]
    assert re.search(r"BROKEN:\ndoubled: \S+ .*written 2 times", ran.stdout)
    assert re.search(r"lost: 0, doubled: [1-9]", ran.stdout)
