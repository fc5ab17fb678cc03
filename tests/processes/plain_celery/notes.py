"""What the contract's worker processes have seen, for the tests to read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tests.support.workers.journal import Journal


def note(event: str, key: str = "", **facts: Any) -> None:
    """Write one entry."""
    Journal(Path(os.environ["CONTRACT_DIRECTORY"])).write(event, key, **facts)
