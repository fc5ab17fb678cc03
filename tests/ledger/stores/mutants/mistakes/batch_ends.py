"""Mistakes in how batches end, run again, are cancelled and pruned."""

from __future__ import annotations

from tests.ledger.stores.mutants.broken_store import Mutation

FINISH, NOTE = "finished_at = {now}, due_at = {after[kept]}", "%(told)s"
REOPEN, CANCEL = "finished_at = NULL, revision", "cancelled_by = %(by)s"
UNSETTLED = "SELECT b.id FROM {batch} b"
LOCK_PAST = "SELECT id FROM {batch} WHERE id"

ENDS = [
    Mutation(
        "a chunk waits for a person though its call ended as expected",
        "k.category = 4",
        "k.category = 5",
        "a_chunk_whose_call_ended_as_expected_counts_as_ended_and_opens_again_by_a_redrive",
    ),
    Mutation(
        "the callback comes again after a reopening",
        "called_at = COALESCE(called_at, {now})",
        "called_at = NULL",
        "a_reopened_batch_finishes_again_without_another_callback",
    ),
    Mutation(
        "a finished batch is past its time at once",
        "due_at = {after[kept]}",
        "due_at = {now}",
        "a_batch_ends_with_its_last_chunk_and_brings_its_callback",
        where=FINISH,
    ),
    Mutation(
        "it is not noted that a failure was announced",
        "COALESCE(attention_at, {now})",
        "attention_at",
        "a_dead_letter_holds_its_batch_and_is_announced_once",
        where=NOTE,
    ),
    Mutation(
        "the youngest batch is settled first",
        "ORDER BY b.created_at, b.id",
        "ORDER BY b.created_at DESC, b.id",
        "batches_that_are_not_where_their_chunks_are_are_found",
        where="b.attention_at IS NULL AND",
    ),
    Mutation(
        "open chunks of other batches hold a batch",
        "c.batch_id = b.id AND c.state = 1",
        "c.state = 1",
        "a_batch_is_settled_by_its_own_chunks_only",
    ),
    Mutation(
        "dead letters of other batches hold a batch",
        "c.batch_id = b.id AND c.state = 3",
        "c.state = 3",
        "a_batch_is_settled_by_its_own_chunks_only",
    ),
    Mutation(
        "a dead letter holds no batch",
        "c.batch_id = b.id AND c.state = 3",
        "c.batch_id = b.id AND c.state = 0",
        "a_dead_letter_holds_its_batch_and_is_announced_once",
    ),
    Mutation(
        "an open chunk holds no batch",
        "c.batch_id = b.id AND c.state = 1",
        "c.batch_id = b.id AND c.state = 0",
        "a_batch_ends_with_its_last_chunk_and_brings_its_callback",
    ),
    Mutation(
        "a batch that has moved on is reopened",
        " AND revision = %(revision)s",
        "",
        "a_reopened_batch_finishes_again_without_another_callback",
        where=REOPEN,
    ),
    Mutation(
        "a cancelled batch is reopened",
        " AND state <> 5",
        "",
        "what_has_ended_is_not_cancelled_and_what_is_cancelled_does_not_run_again",
        where=REOPEN,
    ),
    Mutation(
        "a reopened batch is pruned",
        "due_at = NULL, finished_at = NULL",
        "finished_at = NULL",
        "a_reopened_batch_finishes_again_without_another_callback",
    ),
    Mutation(
        "a reopened batch can be finished by who has seen it before",
        "revision = revision + 1",
        "revision = revision",
        "a_reopened_batch_finishes_again_without_another_callback",
        where=REOPEN,
    ),
    Mutation(
        "a batch is sealed by a redrive",
        "CASE WHEN sealed_at IS NULL THEN 1 ELSE 2 END",
        "2",
        "a_batch_that_is_reopened_while_it_is_submitted_is_submitted_on",
    ),
    Mutation(
        "a finished batch is cancelled",
        "NOT IN (4, 5)",
        "NOT IN (5)",
        "what_has_ended_is_not_cancelled_and_what_is_cancelled_does_not_run_again",
        where=CANCEL,
    ),
    Mutation(
        "a batch is cancelled twice",
        "NOT IN (4, 5)",
        "NOT IN (4)",
        "a_cancelled_batch_stays_so_and_goes_after_its_last_open_chunk",
        where=CANCEL,
    ),
    Mutation(
        "a cancel is not seen by who settles",
        "revision = revision + 1, ",
        "",
        "a_cancelled_batch_stays_so_and_goes_after_its_last_open_chunk",
        where=CANCEL,
    ),
    Mutation(
        "the sweeper passes over batches whose chunks have all ended",
        "b.state = 2 AND",
        "b.state = 0 AND",
        "batches_that_are_not_where_their_chunks_are_are_found",
        where=UNSETTLED,
    ),
    Mutation(
        "the sweeper passes over batches without dead letters any more",
        "b.state = 3 AND",
        "b.state = 0 AND",
        "batches_that_are_not_where_their_chunks_are_are_found",
        where=UNSETTLED,
    ),
    Mutation(
        "the sweeper passes over cancelled batches whose chunks have ended",
        "b.state = 5 AND b.due_at IS NULL AND NOT",
        "b.state = 0 AND NOT",
        "a_cancelled_batch_stays_so_and_goes_after_its_last_open_chunk",
        where=UNSETTLED,
    ),
    Mutation(
        "the sweeper announces a failure during the submission again and again",
        " AND b.attention_at IS NULL",
        "",
        "a_dead_letter_is_announced_while_the_batch_is_submitted",
        where=UNSETTLED,
    ),
    Mutation(
        "more is pruned than was asked for",
        " LIMIT %(bite)s",
        "",
        "a_batch_past_its_time_is_pruned_with_its_chunks_and_records_in_bites",
        where="SELECT id FROM {chunk}",
    ),
    Mutation(
        "chunks of all batches are pruned with one",
        "SELECT id FROM {chunk} WHERE batch_id = %(batch)s",
        "SELECT id FROM {chunk} WHERE 1 = 1",
        "a_batch_past_its_time_is_pruned_with_its_chunks_and_records_in_bites",
    ),
    Mutation(
        "records of all batches are pruned with one",
        "SELECT id FROM {record} WHERE batch_id = %(batch)s",
        "SELECT id FROM {record} WHERE 1 = 1",
        "a_batch_past_its_time_is_pruned_with_its_chunks_and_records_in_bites",
    ),
    Mutation(
        "a batch is pruned that is submitted anew",
        " AND due_at <= {now}",
        "",
        "what_is_submitted_anew_under_the_same_id_is_not_pruned",
        where=LOCK_PAST,
    ),
]

#: The whole database of SQLite is locked.
ENDS_POSTGRESQL = [
    Mutation(
        "a batch is finished that was reopened meanwhile",
        "AND revision = %(revision)s",
        "",
        "a_settlement_does_not_finish_what_was_reopened_meanwhile",
        where=FINISH,
    ),
    Mutation(
        "a settlement overwrites what another one has written",
        "AND state = %(seen)s ",
        "",
        "a_settlement_that_another_has_made_brings_no_callback",
        where=FINISH,
    ),
    Mutation(
        "a settlement overwrites a later one",
        "AND state = %(seen)s ",
        "",
        "a_settlement_looks_again_where_another_was_faster",
        where=NOTE,
    ),
    Mutation(
        "a batch is pruned while somebody redrives it",
        "{skip_locked}",
        "",
        "a_batch_that_somebody_redrives_is_not_pruned",
        where=LOCK_PAST,
    ),
]
