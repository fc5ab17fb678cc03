"""A disk that takes its time: a library that delays each flush of the server, compiled here."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from tempfile import mkdtemp

SOURCE = Path(__file__).with_name("disk.c")


def slow_disk(milliseconds: float) -> Path:
    """Compile the library for a delay, in a directory of its own, which the caller removes.

    Raises LookupError without a C compiler, and CalledProcessError where it fails.
    """
    compiler = shutil.which("cc")
    if compiler is None:
        msg = "--disk needs a C compiler: install one, such as gcc, as cc."
        raise LookupError(msg)
    library = Path(mkdtemp(prefix="slow-disk-")) / "slow_disk.so"
    delay = f"-DDELAY_US={round(milliseconds * 1000)}"
    subprocess.run([compiler, "-shared", "-fPIC", "-O2", delay, "-o", library, SOURCE, "-ldl"], check=True)
    return library
