"""A small chaos run from the command line, with real servers and workers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.chaos.plan import Setting, make_plan

ROOT = Path(__file__).parents[2]


@pytest.mark.process
@pytest.mark.slow
def test_a_small_run_loses_and_doubles_nothing_and_says_what_became_of_each_call(tmp_path: Path) -> None:
    words = ["--calls", "150", "--faults", "12", "--seed", "3", "--report", str(tmp_path)]
    ran = subprocess.run(
        [sys.executable, "-m", "benchmarks", "chaos", *words],
        cwd=ROOT,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-3000:]
    assert "lost: 0, doubled: 0" in ran.stdout
    page = (tmp_path / "postgresql-redis-3.html").read_text()
    assert all(f"<td>{call.key}</td>" in page for call in make_plan(3, Setting(150, 12)).calls)
