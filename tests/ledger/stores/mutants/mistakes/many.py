"""Mistakes in what is done with many calls at once."""

from __future__ import annotations

from tests.ledger.stores.mutants.broken_store import Mutation

MANY = [
    Mutation(
        "of many messages also one is to be sent whose call has gone on",
        "AND token = %(token)s AND message IS NOT NULL\n",
        "AND token >= %(token)s AND message IS NOT NULL\n",
        "many_messages_are_all_to_be_sent_until_one_call_has_gone_on",
    ),
    Mutation(
        "of many messages also one is to be sent that is not there",
        "AND token = %(token)s AND message IS NOT NULL\n",
        "AND token = %(token)s\n",
        "many_messages_are_all_to_be_sent_until_one_call_has_gone_on",
    ),
    Mutation(
        "of many messages that were not sent also what runs is due",
        "AND state IN (1, 3)",
        "AND state IN (1, 2, 3)",
        "of_many_messages_that_were_not_sent_those_are_due_that_still_wait",
        where="SET sends = -1, due_at",
    ),
]

#: In PostgreSQL's own words.
MANY_AS_ARRAYS = [
    Mutation(
        "a reservation of many goes on behind a key that is held",
        "AND place < COALESCE((SELECT place FROM held), place + 1)",
        "AND (place < COALESCE((SELECT place FROM held), place + 1) OR place > (SELECT place FROM held))",
        "many_reservations_stop_at_a_key_that_another_holds",
    ),
    Mutation(
        "a reservation of many does not look for rows first",
        "EXISTS (SELECT 1 FROM {key} k WHERE k.digest = asked.digest) AS is_there",
        "false AS is_there",
        "many_reservations_do_not_wait_for_who_ends_a_key",
    ),
    Mutation(
        "many reservations are looked at at once",
        "{now} + (given.wait) * interval '1 second'",
        "{now}",
        "many_reservations_are_what_single_ones_are",
    ),
]
