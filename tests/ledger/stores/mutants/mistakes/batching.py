"""Mistakes in what is written of batches that are submitted, of their chunks and of their records."""

from __future__ import annotations

from tests.ledger.stores.mutants.broken_store import Mutation

OUTCOMES = "UPDATE {chunk} SET outcomes = %(outcomes)s"
OWNER = "UPDATE {chunk} SET token = %(token)s"
MOVE = "CASE WHEN %(to)s"

SUBMISSIONS = [
    Mutation(
        "a batch is sealed twice",
        " AND state = 1",
        "",
        "a_batch_is_sealed_once",
        where="SET records = %(records)s",
    ),
    Mutation(
        "a cancelled batch is sealed",
        " AND state = 1",
        " AND state IN (1, 5)",
        "a_cancelled_batch_is_not_sealed",
        where="SET records = %(records)s",
    ),
    Mutation(
        "all batches are sealed at once",
        "WHERE id = %(batch)s AND",
        "WHERE",
        "a_batch_is_sealed_once",
        where="SET records = %(records)s",
    ),
    Mutation(
        "the next chunk gets a place that another one has",
        "-1) + 1",
        "-1)",
        "chunks_are_found_by_their_places",
    ),
    Mutation(
        "a batch past its time is taken for one that is there",
        "COALESCE(b.due_at <= {now}, {false})",
        "{false}",
        "who_locks_a_batch_reads_how_it_stands",
    ),
    Mutation(
        "chunks of all batches are found at a place",
        "batch_id = %(batch)s AND place IN",
        "place IN",
        "chunks_are_found_by_their_places",
    ),
    Mutation(
        "chunks that have ended are cancelled",
        " AND state = 1 AND place",
        " AND place",
        "open_chunks_are_read_in_their_order_a_bite_at_a_time",
    ),
    Mutation(
        "open chunks are read from the beginning each time",
        " AND place > %(after)s",
        "",
        "open_chunks_are_read_in_their_order_a_bite_at_a_time",
    ),
    Mutation(
        "open chunks of other batches are read",
        "WHERE batch_id = %(batch)s AND state = 1",
        "WHERE state = 1",
        "open_chunks_are_read_in_their_order_a_bite_at_a_time",
    ),
]

CHUNKS = [
    Mutation(
        "outcomes are written by an owner before",
        " AND token = %(token)s",
        "",
        "an_owner_that_was_taken_over_writes_no_outcome_once_the_taker_holds_the_chunk",
        where=OUTCOMES,
    ),
    Mutation(
        "outcomes are written by who has not waited for the owner before",
        " AND token = %(token)s",
        "",
        "who_has_not_held_the_chunk_writes_no_outcome",
        where=OUTCOMES,
    ),
    *(
        Mutation(
            f"outcomes are written to a chunk that {has_ended}",
            "state IN (1, 3)",
            f"state IN (1, 3, {state})",
            "a_chunk_that_has_ended_gets_no_further_outcome",
            where=OUTCOMES,
        )
        for state, has_ended in ((2, "has ended"), (4, "was discarded"), (5, "was cancelled"))
    ),
    Mutation(
        "outcomes are not written to a redriven chunk",
        "state IN (1, 3)",
        "state IN (1)",
        "a_redriven_chunk_is_written_to_before_it_has_followed",
        where=OUTCOMES,
    ),
    Mutation(
        "outcomes are written to all chunks",
        "WHERE digest = %(digest)s",
        "WHERE %(digest)s = %(digest)s",
        "outcomes_of_a_claim_are_written_to_its_chunk_only",
        where=OUTCOMES,
    ),
    Mutation(
        "a chunk is held for an attempt of another token",
        " AND token = %(token)s",
        "",
        "the_owner_holds_its_chunk_and_nobody_else_does",
        where=OWNER,
    ),
    Mutation(
        "a chunk is held for another owner",
        " AND owner = %(owner)s",
        "",
        "the_owner_holds_its_chunk_and_nobody_else_does",
        where=OWNER,
    ),
    Mutation(
        "a chunk is held that has ended",
        " AND state = 2",
        "",
        "the_owner_holds_its_chunk_and_nobody_else_does",
        where=OWNER,
    ),
    Mutation(
        "a record keeps its first failure",
        "attempt = excluded.attempt",
        "attempt = 1",
        "a_failed_record_is_kept_once_with_its_latest_failure",
    ),
    Mutation(
        "all failures of a batch are forgotten with one",
        " AND record_index = %(index)s",
        "",
        "a_failed_record_is_kept_once_with_its_latest_failure",
        where="DELETE FROM {record}",
    ),
    Mutation(
        "the failures of all batches are forgotten with one",
        "batch_id = %(batch)s AND record_index",
        "record_index",
        "a_failed_record_is_kept_once_with_its_latest_failure",
        where="DELETE FROM {record}",
    ),
    Mutation(
        "what has no outcome has none after the end",
        "THEN replace(outcomes, '.', 'o')",
        "THEN outcomes",
        "what_has_no_outcome_is_done_at_the_end_and_nothing_else_changes",
        where=MOVE,
    ),
    Mutation(
        "a failed chunk loses its outcomes",
        "ELSE outcomes END",
        "ELSE '' END",
        "what_has_no_outcome_is_done_at_the_end_and_nothing_else_changes",
        where=MOVE,
    ),
    Mutation(
        "the next page has no chunk of another batch's first places",
        "batch_id > %(batch)s",
        "batch_id > %(batch)s AND place > %(place)s",
        "chunks_that_lag_behind_their_keys_are_found_a_page_at_a_time",
    ),
    Mutation(
        "a redriven chunk lets its batch be finished",
        "due_at = NULL, finished_at = NULL, revision = revision + 1",
        "due_at = NULL, finished_at = NULL",
        "a_discarded_chunk_that_is_redriven_opens_its_batch_again",
        where="WHERE id IN",
    ),
]

#: The whole database of SQLite is locked.
CHUNKS_POSTGRESQL = [
    Mutation(
        "a key is taken over while its chunk is being held",
        "{locked}",
        "",
        "nobody_takes_a_key_over_while_its_chunk_is_being_held",
        where=OWNER,
    ),
    Mutation(
        "two submitters are in a batch at once",
        "{locked}",
        "",
        "of_two_submitters_the_second_waits_for_the_group_of_the_first",
        where="FROM {batch} b WHERE b.id",
    ),
    Mutation(
        "a chunk follows its key to where it was",
        " AND k.token = %(token)s",
        "",
        "a_key_that_moves_on_meanwhile_is_not_followed_to_where_it_was",
        where=MOVE,
    ),
    Mutation(
        "a key is redriven between its chunk's move and the commit",
        "FOR UPDATE",
        "",
        "nobody_redrives_a_key_between_a_chunks_move_and_its_commit",
        where=MOVE,
    ),
]
