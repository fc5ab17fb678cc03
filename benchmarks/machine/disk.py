"""A disk that takes its time: a library that delays each flush of the server, compiled here."""

from __future__ import annotations

import subprocess
from pathlib import Path
from tempfile import mkdtemp

from benchmarks.machine.compiler import compiler

SOURCE = Path(__file__).with_name("disk.c")


def slow_disk(milliseconds: float) -> Path:
    """Compile the library for a delay, in a directory of its own, which the caller removes.

    Raises LookupError without a C compiler, and CalledProcessError where it fails.
    """
    cc = compiler("--disk")
    library = Path(mkdtemp(prefix="slow-disk-")) / "slow_disk.so"
    delay = f"-DDELAY_US={round(milliseconds * 1000)}"
    subprocess.run([cc, "-shared", "-fPIC", "-O2", delay, "-o", library, SOURCE, "-ldl"], check=True)
    return library
