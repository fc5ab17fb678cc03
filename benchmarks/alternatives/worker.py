"""A worker of another queue: ``python -m benchmarks.alternatives.worker PACKAGE``.

It empties its queue, prints the processor seconds from its first job on, and ends.
"""

from __future__ import annotations

import sys

import django

from benchmarks.alternatives.peers import PEERS


def main(package: str) -> None:
    """Run until the queue is empty."""
    django.setup()
    PEERS[package].module.work()
    from benchmarks.alternatives.job import spent  # noqa: PLC0415  it needs the settings

    print(f"\n{spent()}")


if __name__ == "__main__":
    main(sys.argv[1])
