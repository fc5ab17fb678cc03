"""Mistakes in reservations, and in what comes from outside to work that waits."""

from __future__ import annotations

from tests.ledger.stores.mutants.broken_store import Mutation
from tests.ledger.stores.mutants.mistakes.claiming import MAY_BE_TAKEN

CLAIMABLE = "AND (state = 1 OR (state = 3 AND open_at <= {now}))"

RESERVATIONS = [
    Mutation(
        "a reservation is looked at at once",
        "{after[wait]}, NULL, {now}",
        "{now}, NULL, {now}",
        "a_reservation_is_looked_at_after_its_wait",
    ),
    Mutation(
        "a reservation that goes out later counts as sent",
        "0, 1, 0, 0, 0, %(sends)s",
        "0, 1, 0, 0, 0, 0 * %(sends)s",
        "a_reservation_counts_the_messages_that_it_is_told",
    ),
    Mutation(
        "a reservation is claimed by whoever comes",
        "AND task_id = %(task_id)s AND task = %(task)s",
        "AND %(task_id)s IS NOT NULL AND task = %(task)s",
        "a_reservation_is_not_claimed_by_another_call",
    ),
    Mutation(
        "a reservation is claimed for another task",
        "AND task = %(task)s AND scope",
        "AND scope",
        "a_reservation_is_not_claimed_for_another_task_or_scope",
        where="sends = 0,",
    ),
    Mutation(
        "a reservation is claimed for another scope",
        "AND scope {same} %(scope)s",
        "",
        "a_reservation_is_not_claimed_for_another_task_or_scope",
        where="state = 2",
    ),
    Mutation(
        "a call without an identity gets a second key",
        "WHERE NOT EXISTS",
        "WHERE EXISTS (SELECT 1) OR NOT EXISTS",
        "a_call_whose_id_waits_under_another_key_gets_no_second_one",
    ),
    Mutation(
        "a call that went on under another key is named by its first one",
        "CASE WHEN reason = 12 THEN 1 ELSE 0 END, created_at DESC",
        "created_at",
        "a_reserved_call_is_named_by_its_id",
    ),
    Mutation(
        "a reserved retry is claimed before it is due",
        CLAIMABLE,
        "AND state IN (1, 3)",
        "a_retry_is_claimed_by_its_own_call_when_it_is_due_and_not_before",
    ),
    Mutation(
        "a reserved retry cannot be claimed",
        CLAIMABLE,
        "AND state = 1",
        "a_retry_is_claimed_by_its_own_call_when_it_is_due_and_not_before",
    ),
    Mutation(
        "what runs is claimed as reserved",
        CLAIMABLE,
        "AND (state IN (1, 2) OR (state = 3 AND open_at <= {now}))",
        "only_what_waits_is_claimed_as_reserved",
    ),
    Mutation(
        "a claim of a reservation keeps the token",
        "SET token = token + 1, attempts = {least}(attempts + 1, 32767), sends = 0,",
        "SET attempts = {least}(attempts + 1, 32767), sends = 0,",
        "a_reservation_is_claimed_by_its_own_call",
    ),
    Mutation(
        "a claim keeps the count of messages",
        "32767), sends = 0,",
        "32767),",
        "a_claim_begins_the_count_anew",
    ),
    Mutation(
        "a takeover keeps the count of messages",
        "sends = 0, message = COALESCE",
        "message = COALESCE",
        "a_claim_begins_the_count_anew",
    ),
]

SENT = [
    Mutation(
        "what was sent keeps its message",
        "token = token + 1, message = NULL, finished_at = {now}",
        "token = token + 1, finished_at = {now}",
        "what_was_sent_is_done_and_open_after_its_retention",
        where="reason = 11",
    ),
    Mutation(
        "what was sent is open at once",
        "open_at = {after[retention]}",
        "open_at = {now}",
        "what_was_sent_is_done_and_open_after_its_retention",
        where="reason = 11",
    ),
    Mutation(
        "what has ended is noted as sent",
        "AND token = %(token)s AND state = 1",
        "AND token = %(token)s",
        "only_what_waits_to_be_run_is_noted_as_sent",
        where="reason = 11",
    ),
    Mutation(
        "whatever waits is noted as sent",
        "WHERE digest IN",
        "WHERE reason = 0 OR digest IN",
        "what_was_sent_together_is_noted_together_and_nothing_else",
        where="reason = 11",
    ),
    Mutation(
        "a key of another call is noted as sent",
        "AND token = %(token)s AND state = 1",
        "AND %(token)s >= 0 AND state = 1",
        "a_key_that_has_moved_on_since_it_was_written_is_not_noted_as_sent",
        where="reason = 11",
    ),
]

RESERVATIONS_ANEW = [
    Mutation(
        "a reservation anew keeps the token",
        "SET token = k.token + 1, generation",
        "SET token = k.token, generation",
        "past_its_retention_a_succeeded_key_is_reserved_for_a_new_generation",
        where="sends = %(sends)s",
    ),
    Mutation(
        "a reservation anew does not test the token that was read",
        "token = %(seen)s AND state",
        "state",
        "a_reservation_anew_judged_on_a_row_that_has_changed_since_is_refused",
        where="sends = %(sends)s",
    ),
    Mutation(
        "a reservation anew does not test the state that was read",
        "AND state = %(seen_state)s AND task_id",
        "AND task_id",
        "a_reservation_anew_judged_on_another_state_is_refused",
        where="sends = %(sends)s",
    ),
    Mutation(
        "a reservation anew tests only the time",
        MAY_BE_TAKEN,
        "open_at <= {now}",
        "a_key_that_is_closed_live_or_in_review_is_not_reserved_anew",
        where="sends = %(sends)s",
    ),
    Mutation(
        "a call reserves anew what it finished itself",
        "task_id <> %(task_id)s",
        "%(task_id)s <> ''",
        "a_call_never_reserves_anew_the_key_that_it_finished",
        where="sends = %(sends)s",
    ),
    Mutation(
        "a reservation anew keeps the old owner",
        "owner = NULL, lease_seconds = 0,",
        "lease_seconds = 0,",
        "a_reservation_anew_leaves_nothing_of_the_old_work",
    ),
    Mutation(
        "a reservation anew keeps the old result",
        "message = %(message)s, result = NULL,",
        "message = %(message)s,",
        "a_reservation_anew_leaves_nothing_of_the_old_work",
        where="sends = %(sends)s",
    ),
    Mutation(
        "a reservation anew keeps the old time of a claim",
        "open_at = NULL, due_at = {after[wait]}",
        "due_at = {after[wait]}",
        "past_its_retention_a_succeeded_key_is_reserved_for_a_new_generation",
    ),
]

INTERVENTIONS = [
    Mutation(
        "a revoked message cancels what runs",
        "AND state IN (1, 3)",
        "AND state IN (1, 2, 3)",
        "a_revoked_call_that_runs_or_has_ended_is_left_alone",
        where="WHERE task_id IN (",
    ),
    Mutation(
        "a revoked message cancels no retry",
        "AND state IN (1, 3)",
        "AND state = 1",
        "a_revoked_call_that_waits_is_cancelled",
        where="WHERE task_id IN (",
    ),
    Mutation(
        "a revoked message cancels other calls",
        "WHERE task_id IN (",
        "WHERE task_id NOT IN (",
        "a_revoked_call_is_cancelled_under_each_of_its_keys_and_no_other",
        where="AND state IN (1, 3)",
    ),
    Mutation(
        "an expired message cancels a retry",
        "AND digest = %(digest)s AND state = 1",
        "AND digest = %(digest)s AND state IN (1, 3)",
        "an_expired_message_cancels_only_what_was_never_started",
    ),
    Mutation(
        "an expired message cancels all keys of its call",
        "AND digest = %(digest)s AND state = 1",
        "AND %(digest)s IS NOT NULL AND state = 1",
        "an_expired_message_cancels_only_its_own_call_and_key",
    ),
    Mutation(
        "an expired message cancels another call",
        "task_id = %(task_id)s AND digest = %(digest)s AND state = 1",
        "%(task_id)s <> '' AND digest = %(digest)s AND state = 1",
        "an_expired_message_cancels_only_its_own_call_and_key",
    ),
    Mutation(
        "a release does not test the token",
        "AND token = %(token)s AND state = 2",
        "AND %(token)s >= 0 AND state = 2",
        "a_key_that_has_moved_on_since_it_was_looked_at_is_not_released",
    ),
    Mutation(
        "a release keeps the token, and with it the holder",
        "SET reason = 9, token = token + 1, owner = NULL, sends = -1",
        "SET reason = 9, sends = -1",
        "a_released_key_is_due_now_and_sent_at_once",
    ),
    Mutation(
        "a release takes what does not run",
        "AND token = %(token)s AND state = 2",
        "AND token = %(token)s",
        "only_a_key_that_runs_is_released",
    ),
    Mutation(
        "a released key is run again whatever has happened outside",
        "state = CASE WHEN in_external THEN 4 ELSE 3 END\n WHERE digest",
        "state = 3\n WHERE digest",
        "a_key_released_inside_an_external_call_goes_to_review",
    ),
    Mutation(
        "an unknown task is given up at once",
        "AND sends >= %(sends)s",
        "AND %(sends)s > 0",
        "an_unknown_task_fails_from_the_given_number_of_messages_and_not_before",
    ),
    Mutation(
        "an unknown task is given up one message late",
        "sends >= %(sends)s",
        "sends > %(sends)s",
        "an_unknown_task_fails_from_the_given_number_of_messages_and_not_before",
    ),
    Mutation(
        "an unknown task fails while it runs",
        "AND state IN (1, 3) AND sends >=",
        "AND sends >=",
        "an_unknown_task_that_runs_or_has_ended_is_left_alone",
    ),
    Mutation(
        "an unknown task fails for another call",
        "AND task_id = %(task_id)s AND state IN (1, 3) AND sends",
        "AND %(task_id)s <> '' AND state IN (1, 3) AND sends",
        "only_the_call_that_was_refused_fails_as_unknown",
    ),
    Mutation(
        "an unsent message counts as sent",
        "SET sends = -1, due_at",
        "SET due_at",
        "a_message_that_was_not_sent_is_not_counted_as_sent",
    ),
]
