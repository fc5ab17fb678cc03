"""The hosts of a chaos run's workers: what reaches one whose link is cut, and what stays behind a run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.waiting import eventually

ROOT = Path(__file__).parents[2]
pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="network namespaces are Linux's"),
    pytest.mark.skipif(
        not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root may make network namespaces"
    ),
]
#: Prints whether a program of a host reaches the servers' address: as it is, cut off, joined, and lost.
LINKED = """
import os, socket, subprocess, sys
from benchmarks.chaos.links import Links, leave
why = leave()
links = Links(why, {"URL": "redis://127.0.0.1:7/0"})
with links:
    links.make(["worker2"])
    if links.why:
        sys.exit(f"left out: {links.why}")
    with socket.create_server(("", 0)) as server:
        ASKS = f"import socket; socket.create_connection(('10.213.0.1', {server.getsockname()[1]}), 1)"
        def reaches():
            command = [sys.executable, "-c", "import sys; from benchmarks.hosts.network import enter; "
                       "enter(sys.argv[1], [sys.executable, *sys.argv[2:]])",
                       links.words("worker2", [])[1], "-c", ASKS]
            return subprocess.run(command, stderr=subprocess.DEVNULL).returncode == 0
        print(links.environment("worker2"), links.environment("worker1"), links.words("worker1", ["a"]))
        print(reaches())
        links.cut("worker2")
        print(reaches(), links.disturbed)
        links.join("worker2")
        print(reaches(), links.disturbed)
        links.cut("worker2")
        links.lose("worker2")
        print(reaches(), links.disturbed, links.lost)
"""


def test_a_host_is_reached_until_its_link_is_cut_and_what_takes_its_place_has_another_address() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", LINKED], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if "left out: " in ran.stderr:
        pytest.skip(ran.stderr)
    assert ran.stdout.splitlines() == [
        "{'URL': 'redis://10.213.0.1:7/0'} {} ['a']",
        "True",
        "False {'worker2'}",
        "True set()",
        "True set() ['10.213.0.11']",
    ], ran.stderr


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGKILL], ids=["interrupted", "killed"])
def test_no_network_and_no_process_in_one_outlives_a_run(ending: signal.Signals, tmp_path: Path) -> None:
    words = ["--calls", "400", "--faults", "20", "--strikes", "host cut off", "--report", str(tmp_path)]
    with subprocess.Popen(
        [sys.executable, "-m", "benchmarks", "chaos", *words],
        cwd=ROOT,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as run:
        assert run.stdout is not None
        said = ""
        for line in run.stdout:
            said += line
            if "left out" in line:
                run.kill()
                pytest.skip(line)
            if "  cut worker" in line:
                break
        networks = {_network(pid) for pid in _family(run.pid)} - {_network("self")}
        run.send_signal(ending)
        run.stdout.read()
    assert len(networks) >= 3, said
    eventually(lambda: not networks & _in_use(), "their networks are gone", within=60)


def _family(pid: int) -> list[str]:
    """A process and all that descend from it."""
    found, parents = [pid], dict(_parents())
    for each in found:
        found += [child for child, parent in parents.items() if parent == each]
    return [str(each) for each in found]


def _parents() -> list[tuple[int, int]]:
    pairs = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            pairs.append((int(entry.parent.name), int(entry.read_text().rpartition(")")[2].split()[1])))
        except OSError:
            continue  # it has ended meanwhile
    return pairs


def _network(pid: str) -> str:
    try:
        return str(Path(f"/proc/{pid}/ns/net").readlink())
    except OSError:
        return _network("self")


def _in_use() -> set[str]:
    """The network namespaces of all processes, each by its number."""
    return {_network(entry.name) for entry in Path("/proc").glob("[0-9]*")} - {_network("self")}
