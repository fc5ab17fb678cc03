"""Mistakes in who may claim, and in what a claim leaves behind."""

from __future__ import annotations

from tests.ledger.stores.mutants.broken_store import Mutation

#: Which work what takes a finished key begins.
GENERATION = (
    "generation = k.generation"
    " + CASE WHEN (k.state = 7 OR k.fingerprint <> CAST(%(fingerprint)s AS {uuid})) THEN 1 ELSE 0 END"
)

#: Whether a key's time has come.
IS_OPEN = "(open_at <= {now} OR (finished_at IS NOT NULL AND open_at <= finished_at))"
#: Whether a later call may take a key.
MAY_BE_TAKEN = f"(state IN (5, 6) OR (state = 7 AND {IS_OPEN}))"

CLAIMS = [
    Mutation(
        "a conflict is taken over",
        "ON CONFLICT (digest) DO NOTHING",
        "ON CONFLICT (digest) DO UPDATE SET owner = excluded.owner",
        "a_second_first_claim_of_the_key_is_refused_and_changes_nothing",
    ),
    Mutation(
        "a lease is read by the sweeper's time",
        f"{IS_OPEN}, {{opens_in}}",
        "k.due_at <= {now}, {opens_in}",
        "with_no_retention_a_succeeded_key_is_open_at_once",
    ),
    Mutation(
        "an end is not over before the statement's time",
        f"{IS_OPEN}, {{opens_in}}",
        "open_at <= {now}, {opens_in}",
        "with_no_retention_a_succeeded_key_is_open_to_a_statement_that_began_before_its_end",
    ),
    Mutation(
        "a takeover does not test the time",
        "(state = 1 OR (state IN (2, 3) AND (open_at <= {now} OR %(uncount)s = 1) AND NOT in_external))",
        "state IN (1, 2, 3)",
        "a_lease_that_lasts_is_not_taken_over",
    ),
    Mutation(
        "a retry is claimed before it is due",
        "(state = 1 OR (state IN (2, 3) AND (open_at <= {now} OR %(uncount)s = 1) AND NOT in_external))",
        "(state IN (1, 3) OR open_at <= {now})",
        "a_retry_is_claimed_when_it_is_due_and_not_before",
    ),
    Mutation(
        "a takeover tests only the time",
        "(state = 1 OR (state IN (2, 3) AND (open_at <= {now} OR %(uncount)s = 1) AND NOT in_external))",
        "open_at <= {now}",
        "a_finished_key_is_never_open_to_a_claim_within_its_generation",
    ),
    Mutation(
        "a takeover does not test the token that was read",
        "token = %(seen)s AND state = %(seen_state)s\n   AND (state = 1",
        "state = %(seen_state)s\n   AND (state = 1",
        "a_takeover_judged_on_a_row_that_has_changed_since_is_refused",
    ),
    Mutation(
        "a takeover does not test the state that was read",
        "AND state = %(seen_state)s\n   AND (state = 1",
        "AND (state = 1",
        "a_takeover_judged_on_another_state_is_refused",
    ),
    Mutation(
        "a takeover keeps the token",
        "SET token = token + 1, attempts",
        "SET token = token, attempts",
        "every_takeover_raises_token_attempts_and_crashes_by_one",
    ),
    Mutation(
        "a takeover counts no crash",
        "crashes = crashes + CASE WHEN state = 2 THEN 1 ELSE 0 END",
        "crashes = crashes",
        "an_expired_lease_is_taken_over_and_the_crash_is_counted",
    ),
    Mutation(
        "a takeover changes the accepted call",
        "runner_task_id = NULLIF(%(task_id)s, task_id)",
        "task_id = %(task_id)s",
        "a_takeover_by_another_call_keeps_the_accepted_call_and_names_the_runner",
    ),
    Mutation(
        "a takeover loses the message",
        "message = COALESCE(%(message)s, message), progress",
        "message = %(message)s, progress",
        "a_takeover_without_a_message_keeps_the_stored_one",
    ),
    Mutation(
        "a takeover keeps the old lease's length",
        "open_at = {after[lease]}, due_at = {after[lease]}, state = 2\n WHERE",
        "open_at = {after[lease]}, state = 2\n WHERE",
        "a_takeover_lasts_for_the_lease_of_the_taker",
    ),
]

FINISHED_KEYS = [
    Mutation(
        "a claim anew tests only the time",
        MAY_BE_TAKEN,
        "open_at <= {now}",
        "a_key_that_is_live_or_in_review_is_not_claimed_anew",
    ),
    Mutation(
        "a claim anew does not test the retention",
        f"state = 7 AND {IS_OPEN}",
        "state = 7",
        "a_succeeded_key_is_closed_while_its_retention_lasts",
    ),
    Mutation(
        "a claim anew does not test the token that was read",
        "token = %(seen)s AND state = %(seen_state)s AND task_id",
        "state = %(seen_state)s AND task_id",
        "a_claim_anew_judged_on_a_row_that_has_changed_since_is_refused",
    ),
    Mutation(
        "a claim anew does not test the state that was read",
        "AND state = %(seen_state)s AND task_id",
        "AND task_id",
        "a_claim_anew_judged_on_another_state_is_refused",
    ),
    Mutation(
        "a call claims anew what it finished itself",
        "task_id <> %(task_id)s",
        "task_id <> '' AND %(task_id)s <> ''",
        "a_call_never_claims_anew_the_key_that_it_finished",
    ),
    Mutation(
        "a claim anew keeps the token",
        "SET token = k.token + 1, generation",
        "SET token = k.token, generation",
        "past_its_retention_a_succeeded_key_begins_a_new_generation",
    ),
    Mutation(
        "a claim anew begins no generation",
        GENERATION,
        "generation = k.generation",
        "past_its_retention_a_succeeded_key_begins_a_new_generation",
    ),
    Mutation(
        "what takes a failed key keeps its generation, whatever its arguments",
        GENERATION,
        "generation = k.generation + CASE WHEN k.state = 7 THEN 1 ELSE 0 END",
        "other_arguments_under_a_failed_or_cancelled_key_begin_a_new_generation",
    ),
    Mutation(
        "a claim anew keeps the old result",
        "message = %(message)s, result = NULL,",
        "message = %(message)s,",
        "a_claim_anew_leaves_nothing_of_the_old_work",
    ),
    Mutation(
        "a claim anew keeps the old fingerprint",
        "fingerprint = %(fingerprint)s, message",
        "message",
        "a_claim_anew_brings_its_own_call_message_fingerprint_and_times",
    ),
    Mutation(
        "answers of all keys are mixed",
        "WHERE p.digest = %(digest)s AND p.task_id",
        "WHERE p.task_id",
        "an_answer_belongs_to_its_key",
    ),
]
