"""Wall clocks that can be set wrong while processes run: a library that moves what they read, compiled here.

libfaketime does not do: in a process whose monotonic clock it leaves alone, Python's ``time.sleep`` fails.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from sys import byteorder

from benchmarks.machine.compiler import compiler

SOURCE = Path(__file__).with_name("clock.c")


class Clocks:
    """A clock for each host, in files of a directory; raises LookupError without a C compiler."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._library = directory / "clock.so"
        command = [compiler("A clock that is wrong"), "-shared", "-fPIC", "-O2", "-o"]
        subprocess.run([*command, self._library, SOURCE, "-ldl"], check=True)

    def environment(self, host: str) -> dict[str, str]:
        """The variables by which a process has the clock of this host."""
        place = self._place(host)
        if not place.exists():
            self.set(host, 0)
        return {"LD_PRELOAD": str(self._library), "CLOCK_FILE": str(place)}

    def set(self, host: str, seconds: int) -> None:
        """Let the clock of this host be so many seconds ahead, or behind, from this moment on."""
        place = self._place(host)
        place.touch()
        with place.open("r+b") as file:  # the same file: it is mapped into the host's processes
            file.write(seconds.to_bytes(4, byteorder, signed=True))

    def _place(self, host: str) -> Path:
        return self._directory / f"{host}.clock"
