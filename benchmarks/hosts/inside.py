"""Runs a module on a host: ``python -m benchmarks.hosts.inside HOLDER MODULE ...``."""

from __future__ import annotations

import sys

from benchmarks.hosts.network import enter

if __name__ == "__main__":
    enter(sys.argv[1], [sys.executable, "-m", *sys.argv[2:]])
