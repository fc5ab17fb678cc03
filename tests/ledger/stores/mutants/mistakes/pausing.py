"""Mistakes in how calls wait for the end of a pause."""

from __future__ import annotations

from tests.ledger.stores.mutants.broken_store import Mutation

PARK, UNPARK, ENDED = "EXISTS (SELECT 1 FROM {pause} p", "SET due_at = CASE", "p.until <= {now}"

PAUSES = [
    Mutation(
        "a resumed pause is active",
        "p.resumed_at IS NULL AND p.until > {now}",
        "p.until > {now}",
        "only_a_pause_in_force_is_active_and_only_one_that_is_over_has_ended",
        where="ORDER BY id",
    ),
    Mutation(
        "a pause that is over is active",
        "p.resumed_at IS NULL AND p.until > {now}",
        "p.resumed_at IS NULL",
        "only_a_pause_in_force_is_active_and_only_one_that_is_over_has_ended",
        where="ORDER BY id",
    ),
    Mutation(
        "a resumed pause has not ended",
        "(p.resumed_at IS NOT NULL OR p.until <= {now})",
        "p.until <= {now}",
        "only_a_pause_in_force_is_active_and_only_one_that_is_over_has_ended",
    ),
    Mutation(
        "a call is left to a pause that was resumed",
        "p.resumed_at IS NULL AND p.until > {now}",
        "p.until > {now}",
        "nothing_waits_for_a_pause_that_is_over",
        where=PARK,
    ),
    Mutation(
        "a call is left to a pause whose time is over",
        "p.resumed_at IS NULL AND p.until > {now}",
        "p.resumed_at IS NULL",
        "nothing_waits_for_a_pause_that_is_over",
        where=PARK,
    ),
    Mutation(
        "a row that has moved on is left to a pause",
        "token = %(token)s AND message",
        "token >= 0 AND message",
        "a_row_that_has_moved_on_does_not_wait",
        where=PARK,
    ),
    Mutation(
        "a call without a message is left to a pause",
        "AND message IS NOT NULL",
        "",
        "only_a_call_that_waits_to_be_run_and_has_a_message_waits_for_a_pause",
        where=PARK,
    ),
    Mutation(
        "what runs is left to a pause",
        "state IN (1, 3)",
        "state IN (1, 2, 3)",
        "only_a_call_that_waits_to_be_run_and_has_a_message_waits_for_a_pause",
        where=PARK,
    ),
    Mutation(
        "what waits for a pause comes at once when it is over, whatever its time",
        "CASE WHEN open_at > {now} THEN open_at ELSE {now} END",
        "{now}",
        "what_is_given_back_comes_at_its_own_time_and_not_before",
        where=UNPARK,
    ),
    Mutation(
        "a pause gives back what waits for another",
        "due_at = (SELECT held_at FROM {pause} WHERE id = %(pause)s)",
        "due_at > {now}",
        "a_pause_gives_back_its_own_calls_a_bite_at_a_time_and_no_other",
        where="AND task = %(task)s",
    ),
    Mutation(
        "a pause is drained twice",
        " AND drained_at IS NULL",
        "",
        "a_pause_is_drained_once_and_is_then_neither_active_nor_ended",
        where="SET drained_at",
    ),
    Mutation(
        "a drained pause is ended for ever",
        "drained_at IS NULL AND",
        "",
        "a_pause_is_drained_once_and_is_then_neither_active_nor_ended",
        where=ENDED,
    ),
    Mutation(
        "a pause is pruned as soon as it is drained",
        "drained_at <= {before[keep]}",
        "drained_at IS NOT NULL",
        "a_drained_pause_is_pruned_after_its_time_and_no_other",
    ),
]
