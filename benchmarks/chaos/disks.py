"""A disk of a server's own that can be full: a file system in memory, whose limit is set to what it holds."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from tempfile import mkdtemp
from types import TracebackType
from typing import Self

#: What it may hold; only what is there takes memory.
SIZE = 8 * 1024 * 1024
#: Tries to set the limit while the server goes on writing.
TRIES = 50
#: Unmounts when the owner is gone, however it died, once its servers are stopped by their own watchdogs.
WATCHDOG = 'read -r _; sleep 1; umount -l "$1"; rmdir "$1"'


class NoDisk(RuntimeError):
    """This process may not mount a file system. The message says what was tried."""


class Disk:
    """Mounted at ``path``. Also a context manager."""

    def __init__(self, name: str) -> None:
        self.path = Path(mkdtemp(prefix=f"chaos-{name}-", dir="/tmp")).resolve()
        try:
            _mount("-t", "tmpfs", "-o", f"size={SIZE}k,mode=0711", "tmpfs", str(self.path))
        except NoDisk:
            self.path.rmdir()
            raise
        self._watchdog = subprocess.Popen(
            ["/bin/sh", "-c", WATCHDOG, "watchdog", str(self.path)],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )

    def fill(self) -> None:
        """Leave no room, not for one page more."""
        for attempt in range(TRIES):
            found = os.statvfs(self.path)
            used = (found.f_blocks - found.f_bfree) * found.f_frsize // 1024
            try:
                return _mount("-o", f"remount,size={used}k", str(self.path))
            except NoDisk:  # it holds more by now
                if attempt == TRIES - 1:
                    raise
        return None

    def free(self) -> None:
        """Give room again."""
        _mount("-o", f"remount,size={SIZE}k", str(self.path))

    def remove(self) -> None:
        """Unmount, with all that is on it."""
        self._watchdog.kill()
        self._watchdog.communicate()
        subprocess.run([_program("umount"), "-l", str(self.path)], check=False)
        self.path.rmdir()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()


def _mount(*words: str) -> None:
    done = subprocess.run([_program("mount"), *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoDisk(done.stderr.strip())


def _program(name: str) -> str:
    found = shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin")
    if found is None:
        msg = f"No {name} found."
        raise NoDisk(msg)
    return found
