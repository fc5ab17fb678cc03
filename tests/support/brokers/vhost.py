"""A RabbitMQ vhost of a test's own, and what an operator does there to those who are connected."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from kombu import Connection

from django_idempotent_tasks.messages.relay import collapse
from tests.support.brokers.rabbitmq import rabbitmq_url
from tests.support.waiting import eventually

#: Held while a whole node is blocked: whoever blocks it reads first what it must put back.
LOCK = Path(tempfile.gettempdir()) / "django-idempotent-tasks-rabbitmq-is-blocked"

#: Held by tests that need a node which takes their messages; exclusively by one that blocks it.
_IN_USE = LOCK.with_name("django-idempotent-tasks-rabbitmq-is-in-use")

_WATERMARK = "vm_memory_monitor:get_vm_memory_high_watermark()."
_SET_WATERMARK = "vm_memory_monitor:set_vm_memory_high_watermark({})."
#: The end of its standard input comes when whoever holds the other end says so, or is gone, however it died.
_AT_THE_END = 'read -r _; exec rabbitmqctl --quiet eval "$1"'

_TIMEOUT = "{ok, T} = application:get_env(rabbit, consumer_timeout), T."
_SET_TIMEOUT = "application:set_env(rabbit, consumer_timeout, {})."
# A channel looks by itself once a minute.
_LOOK = (
    "[C ! tick"
    ' || C <- rabbit_channel:list(), [{{vhost, <<"{0}">>}}] =:= (catch rabbit_channel:info(C, [vhost]))].'
)

# What rabbitmqctl's close_all_connections does, and how many there were.
_CLOSE_CONNECTIONS = (
    'length([rabbit_networking:close_connection(P, <<"closed by a test">>)'
    ' || [{{pid, P}}, {{vhost, <<"{0}">>}}] <- rabbit_networking:connection_info_all([pid, vhost])]).'
)
# A channel-level error: each channel gets a passive declaration of a queue that is not there (404).
_CLOSE_CHANNELS = (
    "length([rabbit_channel:do(C, {{'queue.declare', 0, <<\"none\">>, true, false, false, false, false, []}})"
    ' || C <- rabbit_channel:list(), [{{vhost, <<"{0}">>}}] =:= (catch rabbit_channel:info(C, [vhost]))]).'
)


def rabbitmqctl(*arguments: str) -> str:
    """Run it; what it says. Fails when it does."""
    with _begun(*arguments) as process:
        return _said(process)


@contextmanager
def own_vhost(purpose: str = "reserve") -> Iterator[Vhost]:
    """A vhost that is deleted at the end; skips the test, aloud, where nobody may make one."""
    url = urlsplit(rabbitmq_url())
    if not shutil.which("rabbitmqctl"):
        pytest.skip("there is no rabbitmqctl: nothing shown on a RabbitMQ that closes and blocks")
    name = f"{purpose}-{os.getpid()}"
    rabbitmqctl("add_vhost", name)
    try:
        rabbitmqctl("set_permissions", "-p", name, unquote(url.username or "guest"), ".*", ".*", ".*")
        yield Vhost(name, url._replace(path=f"/{name}").geturl())
    finally:
        rabbitmqctl("delete_vhost", name)


@pytest.fixture
def undisturbed() -> Iterator[None]:
    """Until the test has ended nobody blocks the node who asks for :func:`alone`."""
    with _in_use(fcntl.LOCK_SH):
        yield


@pytest.fixture
def alone() -> Iterator[None]:
    """Nobody uses the node who asks for :func:`undisturbed`."""
    with _in_use(fcntl.LOCK_EX):
        yield


@contextmanager
def _in_use(how: int) -> Iterator[None]:
    with _IN_USE.open("w") as lock:
        fcntl.flock(lock, how)
        yield


@dataclass(frozen=True)
class Vhost:
    """Where one test alone is connected."""

    name: str
    url: str

    @contextmanager
    def policy(self, queues: str, **definition: object) -> Iterator[None]:
        """Lay this down for the queues of that name, until the block ends (or the vhost does)."""
        words = ("-p", self.name, "test")
        rabbitmqctl("set_policy", *words, f"^{queues}$", json.dumps(definition), "--apply-to", "queues")
        try:
            yield
        finally:
            rabbitmqctl("clear_policy", *words)

    @contextmanager
    def blocking(self) -> Iterator[None]:
        """The node's memory is said to be used up: it reads nothing more from those who publish.

        That is so for every vhost of the node: a test asks for :func:`alone` first. It ends with this block,
        and also when this process dies.
        """
        with LOCK.open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            with _at_the_end(_SET_WATERMARK.format(rabbitmqctl("eval", _WATERMARK)), lock.fileno()):
                rabbitmqctl("set_vm_memory_high_watermark", "absolute", "1")
                eventually(self.blocks, "publishers are blocked")
                yield
        eventually(lambda: not self.blocks(), "publishers are not blocked any more")

    @contextmanager
    def acknowledging_within(self, milliseconds: int) -> Iterator[None]:
        """Channels that are opened in this block are closed where an acknowledgement takes longer.

        The node's own setting, since queues have none before RabbitMQ 3.12: so for every vhost, and no longer
        than needed. It ends with this block, and also when this process dies.
        """
        with LOCK.open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            with _at_the_end(_SET_TIMEOUT.format(rabbitmqctl("eval", _TIMEOUT)), lock.fileno()):
                rabbitmqctl("eval", _SET_TIMEOUT.format(milliseconds))
                yield

    def look_at_acknowledgements(self) -> None:
        """Let every channel of the vhost look now for how long it has waited."""
        rabbitmqctl("eval", _LOOK.format(self.name))

    def blocks(self) -> bool:
        """Whether somebody who publishes now is told that the connection is blocked."""
        heard: list[str] = []
        connection = Connection(self.url, transport_options={"on_blocked": heard.append, "read_timeout": 1})
        try:
            connection.Producer().publish("anybody?", exchange="", routing_key="nobody")
            connection.drain_events(timeout=1)
        except TimeoutError:
            pass
        finally:
            collapse(connection)  # one that is blocked is not answered, not even to a goodbye
        return bool(heard)


class Closings:
    """Connections and channels of a vhost that are closed under whoever uses them, again and again."""

    def __init__(self, vhost: Vhost) -> None:
        self._ways = {"connections": _CLOSE_CONNECTIONS, "channels": _CLOSE_CHANNELS}
        self._vhost = vhost
        self._round: tuple[str, subprocess.Popen[str]] | None = None
        #: How often they were closed, and how many of each.
        self.rounds = 0
        self.closed = dict.fromkeys(self._ways, 0)

    def go_on(self, way: str) -> None:
        """Begin a round, unless the one before has not ended yet; does not wait."""
        if self._round and self._round[1].poll() is None:
            return
        self.end()
        self._round = way, _begun("eval", self._ways[way].format(self._vhost.name))

    def end(self) -> None:
        """Wait for the last round."""
        if self._round:
            way, process = self._round
            with process:
                self.closed[way] += int(_said(process))
            self.rounds += 1
        self._round = None


def _begun(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        ["/usr/bin/env", "rabbitmqctl", "--quiet", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _said(process: subprocess.Popen[str]) -> str:
    said, complaint = process.communicate(timeout=60)
    assert process.returncode == 0, f"rabbitmqctl: {said} {complaint}"
    return said.strip()


@contextmanager
def _at_the_end(expression: str, lock: int) -> Iterator[None]:
    """Let the node evaluate this at the end of the block or of this process; only then the lock is free."""
    process = subprocess.Popen(
        ["/bin/sh", "-c", _AT_THE_END, "sh", expression],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        pass_fds=[lock],
        start_new_session=True,
    )
    try:
        yield
    finally:
        with process:
            _said(process)
