"""Mistakes in what one store alone says."""

from __future__ import annotations

from tests.ledger.stores.mutants.broken_store import Mutation
from tests.ledger.stores.mutants.mistakes.claiming import IS_OPEN

NOTING = "only_who_meets_a_completed_key_of_another_call_is_noted_as_refused"
NOTED = [
    Mutation(f"a refusal is noted of {what}", old, "", NOTING, where="noted AS (")
    for what, old in {
        "a key in any state": "k.state = 7 AND ",
        "a key whose retention is over": f"AND {IS_OPEN} IS NOT TRUE",
        "a call of another task": "AND k.task = %(task)s ",
        "a call of another scope": "AND k.scope {same} %(scope)s",
        "the call that has completed the key": "AND k.task_id <> %(task_id)s ",
        "the call that had taken the key over": "AND k.runner_task_id IS DISTINCT FROM %(task_id)s",
        "a call that was answered": "AND NOT EXISTS (SELECT 1 FROM {answered} p WHERE p.digest = %(digest)s"
        " AND p.task_id = %(task_id)s)",
        "a call with another payload": "AND (k.fingerprint = CAST(%(fingerprint)s AS {uuid})) IS NOT FALSE",
    }.items()
]
NOTED += [
    Mutation(
        "a refusal that was noted is not told",
        "EXISTS (SELECT 1 FROM noted",
        "NOT EXISTS (SELECT 1 FROM noted",
        NOTING,
    )
]

REFUSING = "a_sender_is_noted_as_refused_only_where_the_rules_refuse_it_for_that_reason"
NOTED += [
    Mutation(f"a sender's refusal is noted of {what}", old, new, REFUSING, where="noted AS (")
    for what, (old, new) in {
        "a key whose lease is over": (" AND k.open_at > {now}", ""),
        "a retry that nobody could send": (" AND k.message IS NOT NULL", ""),
        "a key that has failed": ("(k.state = 1 OR", "(k.state IN (1, 5) OR"),
        "a completed key as of one that is in progress": ("WHEN k.state = 7 THEN", "WHEN k.state = 0 THEN"),
    }.items()
]

AT_ONCE = "a_call_is_refused_at_once_only_where_the_rules_refuse_it_for_that_reason"
REFUSED_AT_ONCE = [
    Mutation(f"a call is refused at once for {what}", old, new, AT_ONCE, where="WITH seen AS")
    for what, (old, new) in {
        "a key of another task": ("AND k.task = %(task)s ", ""),
        "a key that has failed": ("(k.state = 1 OR", "(k.state IN (1, 5) OR"),
        "its own key": ("AND k.task_id <> %(task_id)s ", ""),
        "another reason than its record says": ("WHEN k.state = 7 THEN", "WHEN k.state = 0 THEN"),
    }.items()
]

UNDONE = "a_claim_that_a_crash_may_undo_is_granted_once_like_any_other"

POSTGRESQL = [
    *NOTED,
    *REFUSED_AT_ONCE,
    Mutation(
        "a claim that waits for no disk is made again",
        "ON CONFLICT (digest) DO NOTHING",
        "ON CONFLICT (digest) DO UPDATE SET owner = excluded.owner",
        UNDONE,
        where="synchronous_commit",
    ),
    Mutation(
        "a reservation is claimed again by a claim that waits for no disk",
        "\n  AND pg_catalog.set_config('synchronous_commit', 'off', true) IS NOT NULL",
        " OR digest = %(digest)s",
        UNDONE,
        where="synchronous_commit",
    ),
    Mutation(
        "a cancel keeps the token",
        "reason = 4, token = k.token + 1,",
        "reason = 4,",
        "a_cancelled_owner_can_neither_settle_nor_renew",
    ),
    Mutation(
        "a replaced call is not remembered",
        "WHERE replaced.task_id IS NOT NULL",
        "WHERE false",
        "a_replaced_call_stays_answered_when_the_next_one_has_finished_too",
    ),
    Mutation(
        "a replaced runner is not remembered",
        "(VALUES (old.task_id), (old.runner_task_id))",
        "(VALUES (old.task_id))",
        "a_call_that_had_taken_the_replaced_one_over_is_answered_as_well",
    ),
    Mutation(
        "a replaced call is remembered for ever",
        "AND due_at > {now}\n  ON CONFLICT",
        "\n  ON CONFLICT",
        "a_call_that_ended_before_the_window_is_not_remembered",
    ),
    Mutation(
        "a heartbeat gives up a lease that is over",
        "WHERE h.state = 2 FOR UPDATE OF h",
        "WHERE h.state = 2 AND h.open_at > {now} FOR UPDATE OF h",
        "a_lease_that_is_over_is_extended_while_nobody_has_taken_the_key",
    ),
    Mutation(
        "a heartbeat does not test the owner",
        " AND h.owner = held.owner",
        "",
        "a_renewal_is_by_token_and_owner",
    ),
    Mutation(
        "a heartbeat does not test the token",
        "AND h.token = held.token",
        "AND held.token > 0",
        "a_renewal_is_by_token_and_owner",
    ),
    Mutation(
        "a heartbeat uses the longest lease for all",
        "(k.lease_seconds) * interval",
        "(5000) * interval",
        "leases_of_different_lengths_are_renewed_together",
    ),
    Mutation(
        "a heartbeat waits for a row that is locked",
        "FOR UPDATE OF h SKIP LOCKED",
        "FOR UPDATE OF h",
        "a_renewal_passes_over_a_row_that_a_completion_holds",
    ),
    Mutation(
        "a cancel waits for a row that is locked",
        "FOR UPDATE SKIP LOCKED) AS live",
        "FOR UPDATE) AS live",
        "a_cancel_does_not_wait_for_a_completion",
    ),
    Mutation(
        "a sweep waits for a row that is locked",
        "LIMIT %(bite)s FOR UPDATE SKIP LOCKED) s",
        "LIMIT %(bite)s FOR UPDATE) s",
        "a_sweep_passes_over_a_row_that_a_completion_holds",
    ),
    Mutation(
        "a prune waits for a row that is locked",
        "LIMIT %(bite)s\n FOR UPDATE SKIP LOCKED",
        "LIMIT %(bite)s\n FOR UPDATE",
        "two_prunes_share_no_key_and_do_not_wait_for_each_other",
    ),
    Mutation(
        "a reservation does not look whether the key has a row",
        "WHEN EXISTS (SELECT 1 FROM {key} WHERE digest = %(digest)s) THEN 0",
        "WHEN false THEN 0",
        "a_reservation_does_not_wait_for_who_ends_a_key",
    ),
    Mutation(
        "a reservation waits for another transaction",
        "pg_try_advisory_xact_lock(%(lock)s)",
        "%(lock)s IS NOT NULL",
        "a_reservation_does_not_wait_for_another_transaction",
    ),
    Mutation(
        "a reservation anew waits for another transaction",
        "AND {unheld} FOR UPDATE SKIP LOCKED\n), past",
        "FOR UPDATE\n), past",
        "a_reservation_does_not_wait_for_another_transaction",
    ),
    Mutation(
        "a call replaced by a reservation is not remembered",
        "WHERE replaced.task_id IS NOT NULL",
        "WHERE false",
        "a_call_replaced_by_a_reservation_stays_answered",
        where="sends = %(sends)s",
    ),
    Mutation(
        "duplicates are counted again and again",
        "SET summed = true",
        "SET summed = false",
        "each_duplicate_is_counted_once",
    ),
]

SQLITE = [
    Mutation(
        "a conflict of a reservation is taken over",
        "ON CONFLICT (digest) DO NOTHING RETURNING token",
        "ON CONFLICT (digest) DO UPDATE SET message = NULL RETURNING token",
        "a_key_that_has_a_row_is_not_reserved",
        where="0, 1, 0, 0, 0, %(sends)s",
    ),
    Mutation(
        "a cancel keeps the token",
        "reason = 4, token = token + 1,",
        "reason = 4,",
        "a_cancelled_owner_can_neither_settle_nor_renew",
    ),
    Mutation(
        "a replaced call is not remembered",
        "(replaced.which = 0 OR runner_task_id IS NOT NULL)",
        "false",
        "a_replaced_call_stays_answered_when_the_next_one_has_finished_too",
    ),
    Mutation(
        "a replaced runner is not remembered",
        "(replaced.which = 0 OR runner_task_id IS NOT NULL)",
        "replaced.which = 0",
        "a_call_that_had_taken_the_replaced_one_over_is_answered_as_well",
    ),
    Mutation(
        "a heartbeat gives up a lease that is over",
        "WHERE state = 2 AND (digest, token, owner)",
        "WHERE state = 2 AND open_at > {now} AND (digest, token, owner)",
        "a_lease_that_is_over_is_extended_while_nobody_has_taken_the_key",
    ),
    Mutation(
        "a call replaced by a reservation is not remembered",
        "(replaced.which = 0 OR runner_task_id IS NOT NULL)",
        "false",
        "a_call_replaced_by_a_reservation_stays_answered",
    ),
    Mutation(
        "duplicates are counted again and again",
        "SET summed = 1",
        "SET summed = 0",
        "each_duplicate_is_counted_once",
    ),
]
