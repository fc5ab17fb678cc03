"""A chaos run fills disks and sets clocks wrong, leaves out what it may not, and says why a program ended."""

from __future__ import annotations

import errno
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks.chaos.disks import Disk, NoDisk
from benchmarks.chaos.links import Links
from benchmarks.chaos.plan import OF_A_CLOCK, OF_A_DISK, OF_A_HOST, Setting, Strike, strikes_of
from benchmarks.chaos.possible import COMPILER, LINK, MOUNT, RULE, impossible, told, unchosen
from benchmarks.chaos.reasons import CELERYS, reason_of
from benchmarks.chaos.servers import OwnServers
from benchmarks.machine.clock import Clocks

BARE = OwnServers("", "", None, None)
#: Reads two clocks for each line it is given.
READER = """
import sys, time
for _ in sys.stdin:
    print(time.time(), time.monotonic(), flush=True)
"""


def test_what_the_machine_does_not_allow_is_left_out_and_said() -> None:
    left_out = impossible(Setting(), BARE, None, Links("nobody may"))
    assert set(left_out) == {*OF_A_DISK, *OF_A_CLOCK, *OF_A_HOST, Strike.BROKER_DISK_FULL}
    sentences = list(told(left_out))
    assert len(sentences) == 3
    assert any(f"{LINK} (nobody may)" in each and Strike.HOST_CUT in each for each in sentences)
    assert any(MOUNT in each and Strike.DATABASE_DISK_FULL in each for each in sentences)
    assert any(COMPILER in each and Strike.WORKER_CLOCK in each for each in sentences)
    assert not strikes_of(Setting(without=tuple(left_out))).keys() & left_out.keys()


def test_what_a_setting_cannot_be_dealt_is_not_told_of() -> None:
    left_out = impossible(Setting(database="sqlite", broker="rabbitmq"), BARE, None, Links())
    assert set(left_out) == OF_A_CLOCK


def test_a_link_that_cannot_be_narrowed_can_be_cut_all_the_same() -> None:
    links = Links("")
    links.stiff = "no program 'tc'"
    left_out = impossible(Setting(database="mariadb"), BARE, None, links)
    assert left_out[Strike.HOST_NARROWED] == f"{RULE} (no program 'tc')"
    assert Strike.HOST_CUT not in left_out


def test_only_the_chosen_faults_strike_and_an_unknown_name_is_refused() -> None:
    chosen = unchosen(["child frozen", "database killed"])
    assert set(strikes_of(Setting(without=chosen))) == {Strike.CHILD_FROZEN, Strike.DATABASE_KILLED}
    assert set(strikes_of(Setting(without=unchosen([])))) == set(strikes_of(Setting()))
    with pytest.raises(LookupError, match="no fault 'child bored'; there are child killed, "):
        unchosen(["child bored"])


def test_a_full_disk_takes_no_page_more_until_it_is_freed() -> None:
    try:
        disk = Disk("test")
    except NoDisk:
        pytest.skip("mounting is not allowed")
    with disk:
        (disk.path / "before").write_bytes(b"x" * 10_000)
        disk.fill()
        with pytest.raises(OSError, match="No space left") as refused:
            (disk.path / "full").write_bytes(b"x" * 10_000)
        assert refused.value.errno == errno.ENOSPC
        disk.free()
        (disk.path / "full").write_bytes(b"x" * 10_000)
    assert not disk.path.exists()


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_a_clock_is_set_wrong_while_its_process_runs_and_only_the_wall_clock(tmp_path: Path) -> None:
    clocks = Clocks(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", READER],
        env=clocks.environment("host"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as reader:
        assert reader.stdin is not None
        assert reader.stdout is not None
        for wrong in (0, 300, -300):
            clocks.set("host", wrong)
            print("now", file=reader.stdin, flush=True)
            wall, monotonic = map(float, reader.stdout.readline().split())
            assert wall - time.time() == pytest.approx(wrong, abs=30)
            assert monotonic == pytest.approx(time.monotonic(), abs=30)
        reader.stdin.close()


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        ("redis.exceptions.ResponseError: MISCONF Errors writing", CELERYS),
        ("redis.exceptions.OutOfMemoryError: command not allowed when used memory > 'maxmemory'.", CELERYS),
        ("amqp.exceptions.ResourceLocked: Queue.declare: (405) RESOURCE_LOCKED - cannot obtain", CELERYS),
        ("ValueError: what it was", "ValueError: what it was"),
        ("[2026-01-01 00:00:00] worker: Warm shutdown", ""),
    ],
)
def test_a_program_that_ended_by_itself_is_noted_with_the_last_error_of_its_log(
    end: str, reason: str
) -> None:
    began = "[2026-01-01 00:00:00,001: CRITICAL/MainProcess] Unrecoverable error: it\n"
    fatal = f"{began}Traceback (most recent call last):\n  x()\n{end}\n\n"
    of_a_child = (
        "[2026-01-01 00:00:00,002: ERROR/ForkPoolWorker-1] Task t raised unexpected\nValueError: a task's\n"
    )
    for log in (fatal, of_a_child + fatal, fatal + of_a_child):
        said = reason_of(log)
        assert said.endswith(reason)
        assert bool(said) is bool(reason)
        if reason:
            assert said.startswith(end)


def test_a_fleet_whose_only_worker_lives_with_the_servers_has_no_hosts() -> None:
    links = Links("")
    links.make([])
    assert links.places() == set()
    assert links.why == links.stiff != ""
