"""The hosts of the benchmarks: bytes come late and in order, a cut is judged, no namespace stays behind."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.chaos.plan import Call, Kind
from benchmarks.hosts.connections import sockets_to
from benchmarks.hosts.delay import tell
from benchmarks.hosts.taken import Event, Taken, parse, taken
from example_project.servers.process import free_port
from tests.support.waiting import eventually

ROOT = Path(__file__).parents[2]
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="network namespaces are Linux's")
AS_ROOT = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root may make network namespaces"
)
#: Two hosts, whose holders it names; then it stands still.
#: A shell that starts the tests in the background has SIGINT ignored in all that it starts.
HOLDS = """
import signal, time
signal.signal(signal.SIGINT, signal.default_int_handler)
from benchmarks.hosts.network import hosts, isolate
isolate()
with hosts(2) as there:
    print(*(host.words()[1] for host in there), flush=True)
    time.sleep(600)
"""


@pytest.fixture
def echo() -> Iterator[int]:
    """The port of a server that says what it is told, to one client."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with listener.accept()[0] as client:
                while data := client.recv(65536):
                    client.sendall(data)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        thread.join(10)


@pytest.fixture
def far(echo: int, tmp_path: Path) -> Iterator[tuple[int, Path]]:
    """The port at which the server is far away, and where its distance is told."""
    own, path = free_port(), tmp_path / "delay"
    words = [str(path), f"database={own}=127.0.0.1:{echo}"]
    with subprocess.Popen([sys.executable, "-m", "benchmarks.hosts.delay", *words], cwd=ROOT) as process:
        try:
            eventually(path.exists, "it listens", within=20)
            yield own, path
        finally:
            process.kill()


def test_what_is_said_comes_late_both_ways_in_its_order_and_round_trips_are_counted(
    far: tuple[int, Path],
) -> None:
    (port, path), seconds = far, 0.02
    tell(path, {"database": seconds})
    with socket.create_connection(("127.0.0.1", port), 20) as client, client.makefile("rb") as answers:
        began = time.monotonic()
        for _ in range(3):
            client.sendall(b"ask")
            assert answers.read(3) == b"ask"
        assert time.monotonic() - began >= 3 * 2 * seconds
        assert tell(path, {})["database"] == 1 + 3  # it takes one to connect
        numbers = [b"%03d" % number for number in range(300)]
        for number in numbers:
            client.sendall(number)
        assert answers.read(900) == b"".join(numbers)


def _judged(events: list[Event], results: dict[str, str], kind: Kind = Kind.COMPLETED) -> Taken:
    calls = [Call(number, kind, f"k{number}", -1.0, 0, 0) for number in range(2)]
    (found,) = taken(calls, events, results, host="host1", cut_at=100.0, back_at=130.0)
    return found


def test_calls_that_others_have_claimed_and_completed_are_no_fault() -> None:
    events = [Event("begun", key, "host1", 90.0) for key in ("k0", "k1")]
    events += [Event("begun", "k1", "host2", 112.0), Event("begun", "k0", "host3", 108.0)]
    events += [Event("refused: LeaseLost", "k0", "host1", 131.0)]
    found = _judged(events, {"k0": "host3", "k1": "host2"})
    assert found.broken == []
    assert found.seconds == (8.0, 12.0)
    assert found.ends == ("1 no word", "1 refused: LeaseLost")


def test_a_call_that_nobody_claims_or_that_the_lost_host_completes_is_named() -> None:
    events = [Event("begun", "k0", "host3", 108.0), Event("begun", "k1", "host2", 131.0)]
    assert _judged(events, {"k0": "host1", "k1": "host2"}).broken == [
        "k1 (leased, completed inside complete()): nobody claimed it while its host was cut off",
        "k0 (leased, completed inside complete()): the host that was cut off completed it",
    ]


def test_a_call_that_only_the_broker_brings_back_may_wait_for_its_host_and_is_counted() -> None:
    found = _judged([Event("begun", "k0", "host3", 108.0)], {}, Kind.ATOMIC)
    assert (found.unclaimed, found.broken) == (("k1",), [])
    reserved = _judged([Event("begun", "k0", "host3", 108.0)], {}, Kind.RESERVED_ATOMIC)
    assert reserved.broken == ["k1 (reserved, atomic): nobody claimed it while its host was cut off"]


def test_a_line_that_is_still_being_written_is_not_read() -> None:
    assert parse('["begun", "k0", "host1", 1.5]\n["begun", "k1", "ho') == [Event("begun", "k0", "host1", 1.5)]


def test_connections_are_those_that_are_open_to_the_servers_port() -> None:
    table = (
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
        "   0: 0100007F:1538 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 11 1\n"
        "   1: 0B00D50A:C001 0100D50A:1538 01 00000000:00000000 00:00000000 00000000 0 0 12 1\n"
        "   2: 0B00D50A:C002 0100D50A:1538 06 00000000:00000000 00:00000000 00000000 0 0 13 1\n"
        "   3: 0B00D50A:1538 0100D50A:C003 01 00000000:00000000 00:00000000 00000000 0 0 14 1\n"
    )
    assert sockets_to(table, 0x1538) == {"12"}


@LINUX
def test_without_the_right_to_make_namespaces_it_says_so_and_nothing_is_broken() -> None:
    drop = []
    if os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("there is no program 'setpriv' to give the right up")
        drop = ["setpriv", "--bounding-set", "-sys_admin"]
    command = [*drop, sys.executable, "-m", "benchmarks", "hosts", "--quick"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "hosts is left out: " in ran.stdout


@LINUX
@AS_ROOT
@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGKILL], ids=["interrupted", "killed"])
def test_no_host_outlives_who_has_made_it(ending: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as maker:
        assert maker.stdout is not None
        holders = maker.stdout.readline().split()
        if not holders:
            assert maker.stderr is not None
            pytest.skip(f"no network namespace may be made here: {maker.stderr.read()[-300:]}")
        networks = {_network(pid) for pid in (*holders, str(maker.pid))}
        assert len(networks) == 3
        assert _network("self") not in networks
        maker.send_signal(ending)
    eventually(lambda: not networks & _in_use(), "their namespaces are gone", within=20)


def _network(pid: str) -> str:
    return str(Path(f"/proc/{pid}/ns/net").readlink())


def _in_use() -> set[str]:
    """The network namespaces of all processes, each by its number."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*/ns/net"):
        try:
            found.add(str(entry.readlink()))
        except OSError:
            continue  # it has ended meanwhile
    return found
