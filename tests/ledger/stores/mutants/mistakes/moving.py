"""Mistakes in redrives of the records of a batch."""

from __future__ import annotations

from tests.ledger.stores.mutants.broken_store import Mutation

GIVE, FORGET = (
    "SET outcomes = %(outcomes)s",
    "DELETE FROM {record} WHERE batch_id = %(batch)s AND record_index IN",
)

MOVES = [
    Mutation(
        "a record is given away twice",
        "AND outcomes = %(seen)s",
        "",
        "a_record_is_given_away_once_and_how_it_failed_is_forgotten",
        where=GIVE,
    ),
    Mutation(
        "a chunk gives records away that it may still run",
        "AND state = 2",
        "",
        "a_chunk_that_has_not_ended_gives_nothing_away",
        where=GIVE,
    ),
    Mutation(
        "another chunk loses its outcomes",
        "AND place = %(place)s",
        "",
        "a_record_is_given_away_once_and_how_it_failed_is_forgotten",
        where=GIVE,
    ),
    Mutation(
        "another batch forgets how a record failed",
        "batch_id = %(batch)s AND",
        "",
        "no_other_batch_loses_a_record",
        where=FORGET,
    ),
]
