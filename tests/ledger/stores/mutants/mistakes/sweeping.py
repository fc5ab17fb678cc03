"""Mistakes in the sweeper's duties."""

from __future__ import annotations

from django_idempotent_tasks.ledger.stores.statements import FREED
from tests.ledger.stores.mutants.broken_store import Mutation

SWEEPS = [
    Mutation(
        "a sweep frees living leases",
        "AND due_at <= {now}",
        "AND due_at IS NOT NULL",
        "a_living_lease_is_never_swept",
    ),
    Mutation(
        "a sweep gives nobody the time to come back",
        " AND lease_seconds <= %(calm)s",
        "",
        "a_lease_is_not_freed_before_the_ledger_has_answered_for_as_long",
    ),
    Mutation(
        "a sweep keeps the token",
        f"token = k.token + CASE WHEN {FREED} THEN 1 ELSE 0 END",
        "token = k.token",
        "an_expired_lease_is_freed_and_its_message_is_due_now",
    ),
    Mutation(
        "a sweep counts no crash",
        f"k.crashes + CASE WHEN {FREED} THEN 1 ELSE 0 END",
        "k.crashes",
        "a_freed_key_is_claimed_as_a_takeover_and_the_crash_counts_once",
    ),
    Mutation(
        "a key that keeps crashing never waits",
        "{after_crash}",
        "{now}",
        "after_each_later_crash_a_key_waits_twice_as_long_up_to_a_minute",
    ),
    Mutation(
        "a sweep sends with one pause for ever",
        "{after_send}",
        "{after[republish]}",
        "the_pause_between_two_sendings_doubles_up_to_an_hour",
    ),
    Mutation(
        "a sweep frees what nobody could be sent to run",
        "(k.message IS NOT NULL OR k.in_external)",
        "(k.message IS NOT NULL OR k.message IS NULL)",
        "a_key_without_a_message_keeps_its_owner_open_to_whoever_comes_next",
    ),
    Mutation(
        "an interrupted external call is run again",
        "WHEN k.in_external THEN 4 ELSE 3 END",
        "WHEN k.in_external THEN 3 ELSE 3 END",
        "a_key_interrupted_inside_an_external_call_goes_to_review",
    ),
    Mutation(
        "a sweep has no bounds",
        "LIMIT %(bite)s",
        "LIMIT 1000 + %(bite)s",
        "a_sweep_moves_at_most_one_bite_of_each_state",
        where="sends = ",
    ),
    Mutation(
        "a sweep takes the newest first",
        "ORDER BY due_at LIMIT",
        "ORDER BY due_at DESC LIMIT",
        "a_sweep_takes_what_has_waited_longest",
    ),
    Mutation(
        "a sweep takes what it has given back",
        " AND due_at <= COALESCE(%(until)s, due_at)",
        "",
        "a_sweep_leaves_what_is_due_since_it_began",
    ),
    Mutation(
        "a freed key that waits counts as sent",
        "WHEN k.crashes > 0 THEN -1 ELSE 0 END",
        "ELSE 0 END",
        "a_freed_key_that_waits_has_no_message_on_its_way",
    ),
    Mutation(
        "a freed key keeps the count of messages",
        "WHEN k.crashes > 0 THEN -1 ELSE 0 END",
        "ELSE k.sends END",
        "a_freed_key_is_sent_at_once_and_that_is_its_first_message",
    ),
    Mutation(
        "a sweep counts no message",
        "THEN {least}(k.sends + 1, 32767)",
        "THEN k.sends",
        "what_was_sent_before_is_known_to_have_been",
    ),
    Mutation(
        "a sweep forgets reservations",
        "WHERE state = 1 AND",
        "WHERE state = 0 AND",
        "a_reservation_that_never_arrived_is_sent_again",
    ),
    Mutation(
        "a call that has moved on is made due early",
        "token = %(token)s AND state IN (1, 3) AND sends >= 0",
        "token >= 0 AND state IN (1, 3) AND sends >= 0",
        "nothing_else_is_made_due",
    ),
    Mutation(
        "a call that waits for no message is made due early",
        " AND sends >= 0 AND due_at > {now}",
        " AND due_at > {now}",
        "nothing_else_is_made_due",
    ),
    Mutation(
        "what runs is made due early",
        "AND state IN (1, 3) AND sends >= 0",
        "AND sends >= 0",
        "nothing_else_is_made_due",
    ),
]

DUTIES = [
    Mutation(
        "duplicates are counted in unbounded bites",
        "ORDER BY id LIMIT %(bite)s",
        "ORDER BY id LIMIT 1000 + %(bite)s",
        "duplicates_are_counted_a_bite_at_a_time",
    ),
    Mutation(
        "a duty is taken from its holder",
        "WHERE l.holder = excluded.holder OR l.expires_at <= {now}",
        "WHERE l.token > 0",
        "a_free_duty_is_taken_and_nobody_else_gets_it",
    ),
    Mutation(
        "a duty is never taken over",
        "WHERE l.holder = excluded.holder OR l.expires_at <= {now}",
        "WHERE l.holder = excluded.holder",
        "a_duty_whose_lease_is_over_goes_to_whoever_asks",
    ),
    Mutation(
        "a term goes on after its end",
        "WHEN l.holder = excluded.holder AND l.expires_at > {now} THEN",
        "WHEN l.holder = excluded.holder THEN",
        "a_holder_that_let_its_lease_run_out_begins_a_new_term",
    ),
    Mutation(
        "anybody resigns for anybody",
        "WHERE name = %(name)s AND holder = %(holder)s",
        "WHERE name = %(name)s",
        "nobody_resigns_for_another",
    ),
]
