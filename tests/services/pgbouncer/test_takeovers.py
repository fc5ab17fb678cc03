"""An owner behind PgBouncer stops or dies, as in :mod:`tests.processes.prefork.test_takeovers`."""

from __future__ import annotations

import pytest

from tests.processes.prefork.test_takeovers import (
    test_a_body_ended_by_the_hard_time_limit_does_not_block_its_key,
    test_a_killed_owner_is_taken_over_and_the_next_attempt_knows_it,
    test_a_paused_owner_is_taken_over_and_its_completion_is_refused,
)

__all__ = [
    "test_a_body_ended_by_the_hard_time_limit_does_not_block_its_key",
    "test_a_killed_owner_is_taken_over_and_the_next_attempt_knows_it",
    "test_a_paused_owner_is_taken_over_and_its_completion_is_refused",
]

pytestmark = [pytest.mark.process, pytest.mark.slow]
