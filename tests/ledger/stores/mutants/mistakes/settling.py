"""Mistakes in how a claim ends."""

from __future__ import annotations

from tests.ledger.stores.mutants.broken_store import Mutation

SETTLEMENTS = [
    Mutation(
        "a settlement does not test the token",
        "token = %(token)s AND owner",
        "owner",
        "a_settlement_with_a_token_that_is_not_the_rows_changes_nothing",
    ),
    Mutation(
        "a settlement does not test the owner",
        " AND owner = %(owner)s AND state = 2",
        " AND state = 2",
        "a_settlement_by_an_owner_that_is_not_the_rows_changes_nothing",
    ),
    Mutation(
        "a settlement does not test the state",
        " AND owner = %(owner)s AND state = 2",
        " AND owner = %(owner)s",
        "a_settlement_of_a_key_that_is_not_running_changes_nothing",
    ),
    Mutation(
        "a settlement tests the lease",
        "AND owner = %(owner)s AND state = 2",
        "AND owner = %(owner)s AND state = 2 AND open_at > {now}",
        "an_owner_whose_lease_is_over_may_complete_while_nobody_has_taken_it",
    ),
    Mutation(
        "a word on progress is anybody's",
        " AND token = %(token)s AND owner = %(owner)s AND state = 2",
        "",
        "only_the_owner_has_a_word",
        where="SET progress = %(progress)s",
    ),
    Mutation(
        "a word on progress is a heartbeat",
        "SET progress = %(progress)s",
        "SET open_at = {now}, progress = %(progress)s",
        "a_word_on_progress_changes_nothing_else",
    ),
    Mutation(
        "a completion keeps the message",
        "result = %(result)s, message = NULL,",
        "result = %(result)s,",
        "a_completion_stores_the_result_and_drops_the_message",
    ),
    Mutation(
        "a succeeded key is pruned with its retention",
        "due_at = {after[kept]}",
        "due_at = {after[retention]}",
        "a_completion_stores_the_result_and_drops_the_message",
    ),
    Mutation(
        "a retry is due at once",
        "open_at = {after[wait]}",
        "open_at = {now}",
        "a_retry_is_due_after_its_wait_and_sent_again_a_while_later",
    ),
    Mutation(
        "a retry is sent again as soon as it is due",
        "open_at = {after[wait]}, due_at = {after[republish]}",
        "open_at = {after[wait]}, due_at = {after[wait]}",
        "a_retry_is_sent_again_a_while_after_it_was_due_and_not_before",
    ),
    Mutation(
        "a retry loses the message",
        "message = NULLIF(COALESCE(%(message)s, message), ''),",
        "message = NULLIF(%(message)s, ''),",
        "a_retry_without_a_message_keeps_the_stored_one",
    ),
    Mutation(
        "a retry that cannot be stored keeps the old message",
        "message = NULLIF(COALESCE(%(message)s, message), ''),",
        "message = COALESCE(NULLIF(%(message)s, ''), message),",
        "a_retry_whose_message_cannot_be_stored_forgets_the_old_one",
    ),
    Mutation(
        "a key in review is pruned one day",
        "CASE WHEN %(state)s = 4 THEN NULL ELSE {after[retention]} END",
        "{after[retention]}",
        "a_key_in_review_waits_for_a_person_without_a_time",
    ),
    Mutation(
        "a cancel undoes a completion",
        "state IN (1, 2, 3)",
        "state IN (1, 2, 3, 7)",
        "a_completed_key_stays_completed_when_it_is_cancelled_later",
        where="reason = 4",
    ),
    Mutation(
        "an unsent message is looked for under any token",
        "AND token = %(token)s AND state IN (1, 3)",
        "AND state IN (1, 3)",
        "an_unsent_message_changes_no_row_that_has_moved_on",
    ),
    Mutation(
        "an unsent message is sent before it is due",
        "due_at = CASE WHEN open_at > {now} THEN open_at ELSE {now} END",
        "due_at = {now}",
        "an_unsent_message_that_is_not_due_is_looked_at_when_it_is",
    ),
]

DEAD_OWNERS = [
    Mutation(
        "a key is freed whoever has it",
        " AND k.owner LIKE %(owner)s",
        " AND %(owner)s <> ''",
        "the_key_of_another_owner_is_left_alone",
    ),
    Mutation(
        "a key is freed in any state",
        "AND k.state = 2 AND k.owner LIKE",
        "AND k.owner LIKE",
        "a_key_that_is_not_running_has_no_dead_owner",
    ),
    Mutation(
        "a freed key keeps the token",
        "SET reason = 9, token = token + 1,",
        "SET reason = 9,",
        "the_key_of_a_dead_owner_is_free_at_once_and_the_crash_is_counted",
    ),
    Mutation(
        "a call cancels the key of another",
        "AND (task_id = COALESCE(%(task_id)s, task_id) OR runner_task_id = %(task_id)s)",
        "AND (%(task_id)s IS NULL OR task_id IS NOT NULL)",
        "a_cancel_that_names_a_call_is_for_who_was_accepted_or_runs",
    ),
]
