"""Mistakes in what is counted of an hour."""

from __future__ import annotations

from tests.ledger.stores.mutants.broken_store import Mutation

_LEASED = "a_leased_run_is_counted_in_the_bucket_of_its_seconds"
_NO_RUN = "what_its_owner_did_not_end_has_no_run"
_WAIT = "a_wait_is_from_the_reservation_to_the_first_attempt"
_NO_WAIT = "what_a_failure_or_a_redrive_came_between_did_not_wait_for_a_worker"
_COUNT = "INSERT INTO {hourly}"

HOURS = [
    Mutation("a bound is in the bucket above it", "t.run <= 0.01", "t.run < 0.01", _LEASED),
    Mutation("the last bucket is lost", "t.run > 3600.0 AND", "t.run > 36000.0 AND", _LEASED),
    Mutation("failed runs are left out", "k.state IN (4, 5) AND k.sends", "k.state = 4 AND k.sends", _LEASED),
    Mutation("atomic runs took no time", "k.lease_seconds > 0", "k.lease_seconds >= 0", _NO_RUN),
    Mutation("what a person resolved ran until then", "AND k.owner IS NOT NULL", "", _NO_RUN),
    Mutation("a death is a run", "k.reason NOT IN (9, 7)", "k.reason <> 7", _NO_RUN),
    Mutation("a refused start is a run", "k.reason NOT IN (9, 7)", "k.reason <> 9", _NO_RUN),
    Mutation("what no worker knew is a run", "AND k.sends = 0", "", _NO_RUN),
    Mutation("only first works wait", "k.token = 1 OR NOT EXISTS", "k.token = 1 AND NOT EXISTS", _WAIT),
    Mutation("a redrive has waited since the call", "WHERE f.digest = k.digest", "WHERE 1 = 0", _NO_WAIT),
    Mutation("a retry has waited since the call", "k.attempts = 1", "k.attempts > 0", _NO_WAIT),
    Mutation(
        "an arrival is a wait of no time", "k.started_at > k.created", "k.started_at >= k.created", _NO_WAIT
    ),
    Mutation(
        "an expected end is a failure",
        "k.category = 4 THEN 7",
        "k.category = 4 THEN 5",
        "an_expected_end_is_no_failure",
    ),
    Mutation(
        "the first failure is kept", "MAX(CASE WHEN", "MIN(CASE WHEN", "the_last_failure_of_an_hour_is_kept"
    ),
    Mutation(
        "a second count does not replace the first",
        "run_count = excluded.run_count",
        "run_count = {hourly}.run_count",
        "a_count_replaces_an_earlier_one_of_the_hour",
        where=_COUNT,
    ),
    Mutation(
        "the oldest keys are read",
        "ORDER BY k.created_at DESC LIMIT",
        "ORDER BY k.created_at LIMIT",
        "counts_that_are_read_now_are_bounded_and_of_the_newest_keys",
    ),
]
