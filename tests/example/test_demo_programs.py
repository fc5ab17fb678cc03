"""What the demonstration starts it also ends, with everything below it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from example_project.demo.programs import Program, stop_all, wait_until

pytestmark = [pytest.mark.process, pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")]

WAIT = "import time; time.sleep(600)"


def start(logs: Path) -> Program:
    """A process with a child; both would run for ten minutes."""
    script = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {WAIT!r}])"
    program = Program("parent", ["timeit", "-n1", "-r1", script], logs)
    assert wait_until(lambda: bool(program.children()), seconds=20)
    return program


def is_gone(pid: int) -> bool:
    status = Path(f"/proc/{pid}/stat")
    try:
        return status.read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_kill_ends_the_whole_family(tmp_path: Path) -> None:
    program = start(tmp_path)
    family = [program.pid, *program.children()]

    program.kill()

    assert wait_until(lambda: all(map(is_gone, family)), seconds=10)
    assert not program.running


def test_stop_ends_what_a_program_left_behind_as_well(tmp_path: Path) -> None:
    programs = [start(tmp_path), start(tmp_path)]
    families = [pid for program in programs for pid in (program.pid, *program.children())]

    stop_all(programs)

    assert wait_until(lambda: all(map(is_gone, families)), seconds=10)


def test_the_end_of_the_log_is_kept(tmp_path: Path) -> None:
    program = Program("silent", ["no_such_module"], tmp_path)
    assert wait_until(lambda: not program.running, seconds=20)

    program.kill()

    assert "No module named no_such_module" in program.last_lines()[-1]


def test_waiting_ends_with_the_condition_or_the_time() -> None:
    turns = iter([False, False, True])

    assert wait_until(lambda: next(turns), seconds=5, every=0)
    assert not wait_until(lambda: False, seconds=0)
