"""Mistakes in what is recorded of failed attempts, and in what ended inside ``external()``."""

from __future__ import annotations

from tests.ledger.stores.mutants.broken_store import Mutation

#: Tells the record of a failure from that of a death.
RECORD = "- %(shift)s"
DEATH = "%(runner)s"
FREED = ", k.owner, '')"

RECORDS = [
    Mutation(
        "a record names the token after the failure",
        "k.token - %(shift)s",
        "k.token - 0 * %(shift)s",
        "each_way_to_fail_leaves_one_record_of_where_the_key_went",
    ),
    Mutation(
        "a record names the call that was accepted, not the one that ran",
        "COALESCE(k.runner_task_id, k.task_id), %(worker)s",
        "k.task_id, %(worker)s",
        "the_record_of_a_failure_tells_whose_attempt_it_was_and_what_failed",
        where=RECORD,
    ),
    Mutation(
        "a record forgets the scope",
        "k.scope,",
        "NULL,",
        "the_record_of_a_failure_tells_whose_attempt_it_was_and_what_failed",
        where=RECORD,
    ),
    Mutation(
        "a record says that every key has failed",
        "k.attempts, k.state,",
        "k.attempts, 5,",
        "each_way_to_fail_leaves_one_record_of_where_the_key_went",
        where=RECORD,
    ),
    Mutation(
        "a record calls doubt an ordinary failure",
        "CASE WHEN k.state = 4 THEN 3 ELSE %(category)s END",
        "%(category)s",
        "a_key_in_doubt_is_recorded_as_one_for_a_person",
        where=RECORD,
    ),
    Mutation(
        "a record counts attempts from 0",
        "k.attempts, k.state",
        "k.attempts - 1, k.state",
        "the_record_of_a_failure_tells_whose_attempt_it_was_and_what_failed",
        where=RECORD,
    ),
    Mutation(
        "a plain failure loses its call",
        "%(description)s, %(traceback)s, %(message)s)",
        "%(description)s, %(traceback)s, CASE WHEN %(message)s IS NULL THEN NULL ELSE NULL END)",
        "a_failure_without_a_key_is_kept_with_its_call",
    ),
    Mutation(
        "failed jobs are pruned whatever their age",
        "WHERE at <= {before[keep]} ORDER",
        "WHERE at <= {after[keep]} ORDER",
        "failed_jobs_are_pruned_when_they_are_old_a_bite_at_a_time_and_the_oldest_first",
    ),
    Mutation(
        "the newest failed jobs are pruned first",
        "{before[keep]} ORDER BY at LIMIT",
        "{before[keep]} ORDER BY at DESC LIMIT",
        "failed_jobs_are_pruned_when_they_are_old_a_bite_at_a_time_and_the_oldest_first",
    ),
    Mutation(
        "all failed jobs are pruned in one bite",
        "ORDER BY at LIMIT %(bite)s",
        "ORDER BY at LIMIT 1000 + %(bite)s",
        "failed_jobs_are_pruned_when_they_are_old_a_bite_at_a_time_and_the_oldest_first",
    ),
]

SILENCE = [
    Mutation(
        "a freed lease is recorded for whatever was swept",
        " AND (k.state = 2 AND (k.message IS NOT NULL OR k.in_external))",
        " AND k.state > 0",
        "a_sweep_records_each_ended_attempt_once_and_nothing_else",
        where=FREED,
    ),
    Mutation(
        "a freed lease is recorded without its worker",
        FREED,
        ", '')",
        "a_freed_lease_leaves_a_record_of_the_attempt_that_it_ended",
    ),
    Mutation(
        "a freed lease in doubt is recorded as a retry",
        "CASE WHEN k.in_external THEN 4 ELSE 3 END,\n       CASE",
        "3,\n       CASE",
        "a_dead_letter_of_a_sweep_has_its_record",
        where=FREED,
    ),
    Mutation(
        "a takeover is recorded under the taker's token",
        "k.digest, %(token)s, {now}",
        "k.digest, k.token + 0 * %(token)s, {now}",
        "a_takeover_leaves_a_record_of_the_attempt_that_it_ended",
        where=DEATH,
    ),
    Mutation(
        "a takeover is recorded as the taker's attempt",
        "{now}, %(attempt)s, k.state",
        "{now}, k.attempts + 0 * %(attempt)s, k.state",
        "a_takeover_leaves_a_record_of_the_attempt_that_it_ended",
        where=DEATH,
    ),
]

EXTERNAL_CALLS = [
    Mutation(
        "what ended inside an external call is taken over",
        " AND NOT in_external)",
        ")",
        "what_ended_inside_an_external_call_is_not_taken_over",
    ),
    Mutation(
        "somebody who was taken over says that he is outside",
        "in_external = {true} WHERE digest = %(digest)s AND token = %(token)s AND owner",
        "in_external = {true} WHERE digest = %(digest)s AND owner",
        "only_the_owner_is_inside_an_external_call",
    ),
    Mutation(
        "an interrupted external call is nobody's to decide",
        "{doubted}",
        "category = k.category",
        "whoever_ends_an_external_call_leaves_a_dead_letter_that_tells_why",
    ),
    Mutation(
        "a key released inside an external call is run again",
        "WHEN in_external THEN 4 ELSE 3 END",
        "WHEN in_external THEN 3 ELSE 3 END",
        "a_key_released_inside_an_external_call_goes_to_review",
    ),
    Mutation(
        "a key of a dead owner inside an external call is run again",
        "crashes = crashes + 1, state = CASE WHEN in_external THEN 4 ELSE 3 END",
        "crashes = crashes + 1, state = 3",
        "an_owner_that_died_inside_an_external_call_leaves_its_key_to_a_person",
    ),
    Mutation(
        "a time limit inside an external call is an ordinary failure",
        "state = CASE WHEN in_external THEN 4 ELSE 5 END",
        "state = 5",
        "a_key_in_doubt_is_recorded_as_one_for_a_person",
    ),
]
