"""Hosts on one machine: network namespaces around a bridge, which end with the process that made them.

None has a name in the file system: the kernel removes each with its last process, however that one ends.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Self

#: The servers' address, and the network that only the hosts are in.
CENTRE, NETWORK = "10.213.0.1", "10.213.0.0/24"
#: The hosts' addresses, as MariaDB names them.
EVERY_HOST = "10.213.0.%"
#: Addresses of hosts that are in use at a time at most: more are made in turn, each with the next one.
ADDRESSES = 240
#: Where Debian puts the program that makes links.
SYSTEM = "/usr/sbin:/sbin:/usr/bin:/bin"
CLONE_NEWNET = 0x40000000
#: Names the host for those inside, says that it is there, and stays until its standard input is closed.
HOLDER = 'echo "$1" > /proc/sys/kernel/hostname && echo && exec cat'


class LeftOut(RuntimeError):
    """No network namespace may be made here. The message says why."""


class Host:
    """A host with one link to the bridge, which may be cut; also a context manager."""

    def __init__(self, number: int) -> None:
        self.name = f"host{number}"
        self.address = f"10.213.0.{number % ADDRESSES + 10}"
        self._holder = subprocess.Popen(
            [*_program("unshare"), "--net", "--uts", "/bin/sh", "-c", HOLDER, "holder", self.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        if self._holder.stdout is None or not self._holder.stdout.readline():
            raise LeftOut(f"no namespace for {self.name}: {self._last_words()}")
        try:
            self._link()
        except LeftOut:
            self.__exit__()
            raise
        return self

    def _link(self) -> None:
        pid = str(self._holder.pid)
        _ip("link", "add", self.name, "type", "veth", "peer", "name", "eth0", "netns", pid)
        _ip("link", "set", self.name, "master", "hub", "up")
        for words in (
            ("addr", "add", f"{self.address}/24", "dev", "eth0"),
            ("link", "set", "lo", "up"),
            ("link", "set", "eth0", "up"),
        ):
            _run(*_entering(pid), *_program("ip"), *words)

    def __exit__(self, *_error: object) -> None:
        self._holder.kill()
        self._holder.communicate()

    def words(self, *words: str) -> list[str]:
        """What ``python -m`` is given to run a module there."""
        return ["benchmarks.hosts.inside", str(self._holder.pid), *words]

    def cut(self) -> None:
        """Drop every packet from and to the host; nobody closes a connection."""
        _ip("link", "set", self.name, "down")

    def join(self) -> None:
        """Let packets through again."""
        _ip("link", "set", self.name, "up")

    def narrow(self, rate: str) -> None:
        """Let through so much only (``64kbit``), both ways: what is more waits, or is dropped."""
        for way in self._ways():
            _run(*way, "root", "tbf", "rate", rate, "burst", "4kb", "latency", "400ms")

    def widen(self) -> None:
        """Let through as much as comes."""
        for way in self._ways():
            _run(*way, "root", "pfifo")

    def _ways(self) -> Iterator[list[str]]:
        """How to say by which rule packets leave, at each end of the link."""
        words = [*_program("tc"), "qdisc", "replace", "dev"]
        yield [*words, self.name]
        yield [*_entering(str(self._holder.pid)), *words, "eth0"]

    def _last_words(self) -> str:
        self._holder.kill()
        return self._holder.communicate()[1].decode(errors="replace").strip()


def isolate() -> None:
    """Move this process and all that it starts into a network of its own, with nothing outside.

    To be called before any thread begins. Raises LeftOut where that is not allowed; it is back then.
    """
    for name in ("ip", "unshare", "nsenter"):
        _program(name)
    system = ctypes.CDLL(None, use_errno=True)
    if not hasattr(system, "unshare"):
        raise LeftOut("this system has no network namespaces")
    with open("/proc/self/ns/net") as before:  # noqa: PTH123  a file that names where this process is
        if system.unshare(CLONE_NEWNET):
            raise LeftOut(
                f"no network namespace may be made here ({os.strerror(ctypes.get_errno())}): be root"
            )
        try:
            _ip("link", "set", "lo", "up")
            _ip("link", "add", "hub", "type", "bridge")
            _ip("addr", "add", f"{CENTRE}/24", "dev", "hub")
            _ip("link", "set", "hub", "up")
        except LeftOut:
            system.setns(before.fileno(), CLONE_NEWNET)
            raise


@contextmanager
def hosts(number: int) -> Iterator[list[Host]]:
    """So many hosts, which are gone afterwards."""
    with ExitStack() as undo:
        yield [undo.enter_context(Host(each + 1)) for each in range(number)]


def enter(pid: str, command: list[str]) -> None:
    """Become ``command`` in the namespaces of the host that this process holds."""
    words = [*_entering(pid), *command]
    os.execv(words[0], words)  # noqa: S606  no shell is wanted


def _entering(pid: str) -> list[str]:
    return [*_program("nsenter"), "--net", "--uts", "--target", pid, "--"]


def _program(name: str) -> list[str]:
    found = shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:{SYSTEM}")
    if found is None:
        raise LeftOut(f"there is no program {name!r}: install iproute2 and util-linux")
    return [found]


def _ip(*words: str) -> None:
    _run(*_program("ip"), *words)


def _run(*words: str) -> None:
    ran = subprocess.run(words, check=False, capture_output=True, text=True)
    if ran.returncode:
        raise LeftOut(f"{' '.join(words)} failed: {ran.stderr.strip()}")
