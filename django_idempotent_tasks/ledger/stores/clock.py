"""The ledger's clock is the database's. Tests move it here, and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

_offset = 0


def offset() -> int:
    """Seconds that this process adds to the database's clock: 0 outside tests."""
    return _offset


@contextmanager
def shifted(seconds: int) -> Iterator[None]:
    """Let every statement of this process see the database's clock moved by whole ``seconds``."""
    global _offset  # noqa: PLW0603  one clock a process is the point
    before, _offset = _offset, _offset + seconds
    try:
        yield
    finally:
        _offset = before
