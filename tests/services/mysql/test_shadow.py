"""Shadow mode on MariaDB or MySQL: the promises that stand on what the store says."""

from __future__ import annotations

from tests.running.delivery.shadowed import told
from tests.running.delivery.test_shadow import (
    test_a_duplicate_runs_gets_its_own_value_and_is_noted,
    test_inside_a_callers_transaction_nothing_outlives_its_rollback,
    test_what_a_body_raises_is_noted_by_the_tasks_rules,
    test_what_would_be_refused_is_what_is_refused,
)
from tests.running.delivery.test_shadow_retries import (
    test_a_duplicate_of_what_waits_for_its_retry_is_noted_unless_that_is_lost,
    test_retries_are_celerys_and_the_ledger_follows_them,
)
from tests.services.mysql.server import mark

__all__ = [
    "test_a_duplicate_of_what_waits_for_its_retry_is_noted_unless_that_is_lost",
    "test_a_duplicate_runs_gets_its_own_value_and_is_noted",
    "test_inside_a_callers_transaction_nothing_outlives_its_rollback",
    "test_retries_are_celerys_and_the_ledger_follows_them",
    "test_what_a_body_raises_is_noted_by_the_tasks_rules",
    "test_what_would_be_refused_is_what_is_refused",
    "told",
]
pytestmark = mark
