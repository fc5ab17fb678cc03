"""Mistakes in the claims of atomic runs, and in what they store."""

from __future__ import annotations

from tests.ledger.stores.mutants.broken_store import Mutation

#: Tells each statement from its leased likeness.
NEW = "{after[kept]}, {after[retention]}, {now}"
COMPLETED = "runner_task_id = NULLIF(%(task_id)s, task_id), lease_seconds = 0"
WITHIN = "task_id), lease_seconds = %(lease)s"

RESERVED = "(state = 1 OR (state = 3 AND open_at <= {now}))"
OPEN = "(state = 1 OR (state IN (2, 3) AND (open_at <= {now} OR %(uncount)s = 1) AND NOT in_external))"

ATOMIC_CLAIMS = [
    Mutation(
        "a conflict is taken over by an atomic claim",
        "ON CONFLICT (digest) DO NOTHING",
        "ON CONFLICT (digest) DO UPDATE SET owner = excluded.owner",
        "a_key_that_has_a_row_is_not_claimed_as_a_new_one_by_an_atomic_run",
        where=NEW,
    ),
    Mutation(
        "an atomic claim is not completed",
        "0, 7, 1, 1, 0, 0",
        "0, 2, 1, 1, 0, 0",
        "an_atomic_claim_is_completed_from_the_start",
    ),
    Mutation(
        "an atomic claim stores its message",
        "CAST(%(fingerprint)s AS {uuid}), NULL WHERE",
        "CAST(%(fingerprint)s AS {uuid}), %(message)s WHERE",
        "the_row_of_an_atomic_claim_tells_the_whole_call_but_not_its_message",
    ),
    Mutation(
        "an atomic claim is closed for as long as it is kept",
        NEW,
        "{after[kept]}, {after[kept]}, {now}",
        "an_atomic_claim_is_open_to_others_once_its_retention_is_over_and_not_before",
    ),
    Mutation(
        "an atomic claim is kept no longer than it is closed",
        NEW,
        "{after[retention]}, {after[retention]}, {now}",
        "an_atomic_claim_is_kept_for_its_retention_or_the_window_whichever_is_longer",
    ),
    Mutation(
        "a reservation is completed by whoever comes",
        "AND task_id = %(task_id)s AND task = %(task)s",
        "AND %(task_id)s IS NOT NULL AND task = %(task)s",
        "a_reservation_is_not_completed_by_an_atomic_claim_of_another_call",
        where=COMPLETED,
    ),
    Mutation(
        "a reserved retry is completed before it is due",
        RESERVED,
        "state IN (1, 3)",
        "a_retry_is_claimed_atomically_by_its_own_call_when_it_is_due_and_not_before",
        where=COMPLETED,
    ),
    Mutation(
        "a reserved retry cannot be completed",
        RESERVED,
        "state = 1",
        "a_retry_is_claimed_atomically_by_its_own_call_when_it_is_due_and_not_before",
        where=COMPLETED,
    ),
    Mutation(
        "what runs is completed as reserved",
        RESERVED,
        "(state IN (1, 2) OR (state = 3 AND open_at <= {now}))",
        "only_what_waits_is_claimed_atomically_as_reserved",
        where=COMPLETED,
    ),
    Mutation(
        "an atomic claim of a reservation keeps the message",
        "message = NULL, started_at",
        "started_at",
        "a_reservation_is_completed_by_an_atomic_claim_of_its_own_call",
        where=COMPLETED,
    ),
    Mutation(
        "an atomic claim of a reservation keeps its reason",
        "THEN 9 ELSE 1 END",
        "THEN 9 ELSE reason END",
        "a_reservation_is_completed_by_an_atomic_claim_of_its_own_call",
        where=COMPLETED,
    ),
    Mutation(
        "an atomic claim of a reservation keeps the owner",
        "owner = %(owner)s, runner_task_id",
        "runner_task_id",
        "a_reservation_is_completed_by_an_atomic_claim_of_its_own_call",
        where=COMPLETED,
    ),
    Mutation(
        "an atomic claim of a reservation keeps the count of messages",
        "lease_seconds = 0, sends = 0,",
        "lease_seconds = 0,",
        "a_reservation_is_completed_by_an_atomic_claim_of_its_own_call",
        where=COMPLETED,
    ),
    Mutation(
        "an atomic claim of a reservation is closed for as long as it is kept",
        "open_at = {after[retention]}",
        "open_at = {after[kept]}",
        "a_reservation_without_retention_is_open_at_once_when_its_atomic_run_is_committed",
        where=COMPLETED,
    ),
    Mutation(
        "an atomic run counts no attempt",
        "attempts = {least}(attempts + 1 - %(uncount)s, 32767)",
        "attempts = attempts",
        "a_reservation_is_completed_by_an_atomic_claim_of_its_own_call",
        where=COMPLETED,
    ),
]

ATOMIC_TAKEOVERS = [
    Mutation(
        "an atomic takeover does not test the time",
        OPEN,
        "(state IN (1, 2, 3) AND %(uncount)s >= 0)",
        "a_lease_that_lasts_is_not_taken_over_by_an_atomic_run",
        where=COMPLETED,
    ),
    Mutation(
        "an atomic takeover tests only the time",
        OPEN,
        "(open_at <= {now} OR %(uncount)s = 1)",
        "a_finished_key_is_never_open_to_an_atomic_run_within_its_generation",
        where=COMPLETED,
    ),
    Mutation(
        "an atomic takeover does not test the token that was read",
        "AND token = %(seen)s AND state",
        "AND %(seen)s >= 0 AND state",
        "an_atomic_takeover_judged_on_a_row_that_has_changed_since_is_refused",
        where=COMPLETED,
    ),
    Mutation(
        "an atomic takeover does not test the state that was read",
        "AND state = %(seen_state)s",
        "AND %(seen_state)s > 0",
        "an_atomic_takeover_judged_on_another_state_is_refused",
        where=COMPLETED,
    ),
    Mutation(
        "an atomic takeover keeps the token",
        "SET token = token + 1, attempts",
        "SET attempts",
        "an_expired_lease_is_taken_over_by_an_atomic_run_and_the_crash_is_counted",
        where=COMPLETED,
    ),
    Mutation(
        "an atomic takeover counts no crash",
        "CASE WHEN state = 2 THEN 1 ELSE 0 END - %(uncount)s",
        "0 - %(uncount)s",
        "an_expired_lease_is_taken_over_by_an_atomic_run_and_the_crash_is_counted",
        where=COMPLETED,
    ),
    Mutation(
        "an atomic takeover of a lease does not tell of its death",
        "CASE WHEN state = 2 OR reason = 9",
        "CASE WHEN reason = 9",
        "an_expired_lease_is_taken_over_by_an_atomic_run_and_the_crash_is_counted",
        where=COMPLETED,
    ),
    Mutation(
        "an atomic run forgets that the owner before it died",
        "CASE WHEN state = 2 OR reason = 9",
        "CASE WHEN state = 2",
        "that_the_owner_before_died_is_known_until_the_result_is_stored",
        where=COMPLETED,
    ),
    Mutation(
        "an atomic takeover changes the accepted call",
        "runner_task_id = NULLIF(%(task_id)s, task_id)",
        "task_id = %(task_id)s",
        "an_atomic_takeover_by_another_call_keeps_the_accepted_call_and_names_the_runner",
        where=COMPLETED,
    ),
    Mutation(
        "an atomic takeover leaves the key running",
        "due_at = {after[kept]}, state = 7",
        "due_at = {after[kept]}, state = 2",
        "an_atomic_takeover_is_seen_by_others_when_it_is_committed_and_not_before",
        where=COMPLETED,
    ),
    Mutation(
        "an atomic takeover keeps the message",
        "message = NULL, started_at",
        "started_at",
        "an_expired_lease_is_taken_over_by_an_atomic_run_and_the_crash_is_counted",
        where=COMPLETED,
    ),
]

COUNTED = [
    Mutation(
        "a counted start stays counted",
        "ELSE 0 END - %(uncount)s",
        "ELSE 0 END - 0 * %(uncount)s",
        "a_counted_start_takes_its_own_count_back_and_no_other",
        where=COMPLETED,
    ),
    Mutation(
        "a counted start takes back what others have counted",
        "crashes = crashes + CASE WHEN state = 2 THEN 1 ELSE 0 END - %(uncount)s",
        "crashes = crashes * (1 - %(uncount)s)",
        "a_counted_start_takes_its_own_count_back_and_no_other",
        where=COMPLETED,
    ),
    Mutation(
        "a counted start waits for the end of its own crash",
        "OR %(uncount)s = 1",
        "OR %(uncount)s > 1",
        "a_counted_start_does_not_wait_for_the_end_of_its_own_crash",
        where=COMPLETED,
    ),
    Mutation(
        "an atomic start waits for no crash",
        "OR %(uncount)s = 1",
        "OR %(uncount)s >= 0",
        "a_start_that_was_not_counted_waits_for_the_end_of_a_crash",
        where=COMPLETED,
    ),
    Mutation(
        "a leased claim leaves a counted start counted",
        "ELSE 0 END - %(uncount)s",
        "ELSE 0 END - 0 * %(uncount)s",
        "a_counted_start_is_taken_back_by_a_leased_claim_as_well",
        where=WITHIN,
    ),
    Mutation(
        "a leased claim of a counted start waits for the end of its crash",
        "OR %(uncount)s = 1",
        "OR %(uncount)s > 1",
        "a_counted_start_is_taken_back_by_a_leased_claim_as_well",
        where=WITHIN,
    ),
    Mutation(
        "a leased claim waits for no crash",
        "OR %(uncount)s = 1",
        "OR %(uncount)s >= 0",
        "a_start_that_was_not_counted_waits_for_the_end_of_a_crash",
        where=WITHIN,
    ),
    Mutation(
        "a leased claim takes the key from who was faster than a counted start",
        "AND token = %(seen)s AND state = %(seen_state)s",
        "AND %(seen)s >= 0 AND %(seen_state)s > 0",
        "a_counted_start_is_refused_when_another_claim_was_faster",
        where=WITHIN,
    ),
]
