"""A host behind PgBouncer dies, as in :mod:`tests.process.test_host_death`."""

from __future__ import annotations

import pytest

from tests.process.test_host_death import (
    aftermath,
    test_another_worker_leads_the_sweeper_within_its_lease,
    test_the_work_is_done_within_a_lease_and_twenty_seconds,
)

__all__ = [
    "aftermath",
    "test_another_worker_leads_the_sweeper_within_its_lease",
    "test_the_work_is_done_within_a_lease_and_twenty_seconds",
]

pytestmark = [pytest.mark.process, pytest.mark.slow]
