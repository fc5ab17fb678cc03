"""A moment at which no minute ends, nor an hour, nor a day."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from django_idempotent_tasks.ledger.stores.clock import shifted

#: Seconds: half a minute, far above what a test takes that asks for it.
HALF = 30


@pytest.fixture
def early_in_a_minute() -> Iterator[None]:
    """By the ledger's clock it is always the first half of a minute."""
    with shifted(HALF if time.time() % 60 >= HALF else 0):
        yield
