"""A network namespace, from which a host may vanish: its packets are dropped, and nobody closes anything."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import pytest


@dataclass(frozen=True)
class Street:
    """A link between this host, as ``here``, and the namespace ``name``, as ``there``."""

    name: str
    here: str
    there: str

    def command(self, *words: str) -> list[str]:
        """The command line of a program inside."""
        return ["ip", "netns", "exec", self.name, *words]

    def cut(self) -> None:
        """Drop every packet from now on."""
        _ip("link", "set", self._device, "down")

    @property
    def _device(self) -> str:
        return self.name


@contextmanager
def street() -> Iterator[Street]:
    """A new one; the test is skipped, aloud, where none may be made."""
    name = f"idem{os.getpid() % 100_000}"
    number = os.getpid() % 16_000 * 4
    here, there = (f"10.213.{(number + end) // 256}.{(number + end) % 256}" for end in (1, 2))
    try:
        _make(name, here, there)
        yield Street(name, here, there)
    finally:
        with suppress(OSError, subprocess.CalledProcessError):
            _ip("netns", "del", name)
        with suppress(OSError, subprocess.CalledProcessError):
            _ip("link", "del", name)


def _make(name: str, here: str, there: str) -> None:
    if shutil.which("ip") is None:
        pytest.skip("there is no program 'ip': install iproute2")
    try:
        _ip("netns", "add", name)
        _ip("link", "add", name, "type", "veth", "peer", "name", "there", "netns", name)
        _ip("addr", "add", f"{here}/30", "dev", name)
        _ip("link", "set", name, "up")
        _ip("-n", name, "addr", "add", f"{there}/30", "dev", "there")
        _ip("-n", name, "link", "set", "there", "up")
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no network namespace may be made here: {error.stderr.strip()}")


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)  # noqa: S607  as on the path
