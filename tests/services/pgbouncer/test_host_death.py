"""A host behind PgBouncer dies, another sweeps: as in :mod:`tests.processes.prefork.test_host_death`."""

from __future__ import annotations

import pytest

from tests.processes.prefork.test_host_death import (
    aftermath,
    test_the_work_is_done_within_a_lease_and_twenty_seconds,
)

__all__ = [
    "aftermath",
    "test_the_work_is_done_within_a_lease_and_twenty_seconds",
]

pytestmark = [pytest.mark.process, pytest.mark.slow]
