"""Mistakes in atomic runs of finished keys, in their results and in their locks."""

from __future__ import annotations

from tests.ledger.stores.mutants.broken_store import Mutation
from tests.ledger.stores.mutants.mistakes.atomic import NEW
from tests.ledger.stores.mutants.mistakes.claiming import GENERATION, IS_OPEN, MAY_BE_TAKEN

#: Tells the statement from its leased likeness.
ANEW = "reason = 1, attempts = 1"

ATOMIC_RECLAIMS = [
    Mutation(
        "an atomic run anew tests only the time",
        MAY_BE_TAKEN,
        "open_at <= {now}",
        "a_key_that_is_live_or_in_review_is_not_run_atomically_anew",
        where=ANEW,
    ),
    Mutation(
        "an atomic run anew does not test the retention",
        f"state = 7 AND {IS_OPEN}",
        "state = 7",
        "a_succeeded_key_is_closed_to_atomic_runs_while_its_retention_lasts",
        where=ANEW,
    ),
    Mutation(
        "an atomic run anew takes no failed and no cancelled key",
        MAY_BE_TAKEN,
        f"(state = 7 AND {IS_OPEN})",
        "a_failed_or_cancelled_key_is_run_atomically_within_its_generation",
        where=ANEW,
    ),
    Mutation(
        "an atomic run anew does not test the token that was read",
        "token = %(seen)s AND state = %(seen_state)s AND task_id",
        "state = %(seen_state)s AND task_id",
        "an_atomic_run_anew_judged_on_a_row_that_has_changed_since_is_refused",
        where=ANEW,
    ),
    Mutation(
        "an atomic run anew does not test the state that was read",
        "AND state = %(seen_state)s AND task_id",
        "AND task_id",
        "an_atomic_run_anew_judged_on_another_state_is_refused",
        where=ANEW,
    ),
    Mutation(
        "a call runs atomically again what it finished itself",
        "task_id <> %(task_id)s",
        "task_id <> '' AND %(task_id)s <> ''",
        "a_call_never_runs_atomically_again_what_it_finished",
        where=ANEW,
    ),
    Mutation(
        "an atomic run anew keeps the token",
        "SET token = k.token + 1, generation",
        "SET token = k.token, generation",
        "past_its_retention_an_atomic_run_begins_a_new_generation",
        where=ANEW,
    ),
    Mutation(
        "an atomic run anew begins no generation",
        GENERATION,
        "generation = k.generation",
        "past_its_retention_an_atomic_run_begins_a_new_generation",
        where=ANEW,
    ),
    Mutation(
        "an atomic run anew always begins a generation",
        GENERATION,
        "generation = k.generation + 1",
        "a_failed_or_cancelled_key_is_run_atomically_within_its_generation",
        where=ANEW,
    ),
    Mutation(
        "an atomic run anew keeps the old result",
        "message = NULL, result = NULL,",
        "message = NULL,",
        "an_atomic_run_anew_leaves_nothing_of_the_old_work",
        where=ANEW,
    ),
    Mutation(
        "an atomic run anew keeps the old message",
        "message = NULL, result = NULL,",
        "result = NULL,",
        "an_atomic_run_anew_leaves_nothing_of_the_old_work",
        where=ANEW,
    ),
    Mutation(
        "an atomic run anew keeps the old crashes",
        "attempts = 1, crashes = 0, sends = 0",
        "attempts = 1, sends = 0",
        "an_atomic_run_anew_leaves_nothing_of_the_old_work",
        where=ANEW,
    ),
    Mutation(
        "an atomic run anew keeps the old runner",
        "runner_task_id = NULL, owner",
        "owner",
        "an_atomic_run_anew_leaves_nothing_of_the_old_work",
        where=ANEW,
    ),
    Mutation(
        "an atomic run anew keeps the old fingerprint",
        "fingerprint = %(fingerprint)s, message",
        "message",
        "an_atomic_run_anew_brings_its_own_call_fingerprint_and_times",
        where=ANEW,
    ),
    Mutation(
        "an atomic run anew keeps the time of the old end",
        "finished_at = {now}, open_at",
        "open_at",
        "an_atomic_run_anew_brings_its_own_call_fingerprint_and_times",
        where=ANEW,
    ),
    Mutation(
        "an atomic run anew is not completed",
        "due_at = {after[kept]}, state = 7",
        "due_at = {after[kept]}, state = 2",
        "an_atomic_run_anew_brings_its_own_call_fingerprint_and_times",
        where=ANEW,
    ),
]

_NAMED = "token = %(token)s AND owner = %(owner)s AND state = 7"

ATOMIC_RESULTS = [
    Mutation(
        "a result does not name its token",
        _NAMED,
        "%(token)s > 0 AND owner = %(owner)s AND state = 7",
        "only_the_claim_that_it_names_gets_a_result",
    ),
    Mutation(
        "a result does not name its owner",
        _NAMED,
        "token = %(token)s AND %(owner)s <> '' AND state = 7",
        "only_the_claim_that_it_names_gets_a_result",
    ),
    Mutation(
        "a result is given to a claim that still runs",
        _NAMED,
        "token = %(token)s AND owner = %(owner)s",
        "only_the_claim_that_it_names_gets_a_result",
    ),
    Mutation(
        "a result does not bring its reason",
        "SET reason = %(reason)s, result = %(result)s\n WHERE",
        "SET reason = CASE WHEN %(reason)s > 0 THEN reason END, result = %(result)s\n WHERE",
        "that_the_owner_before_died_is_known_until_the_result_is_stored",
    ),
    Mutation(
        "a result brings only its reason",
        "SET reason = %(reason)s, result = %(result)s\n WHERE",
        "SET reason = %(reason)s, result = NULLIF(%(result)s, %(result)s)\n WHERE",
        "a_result_is_stored_with_its_reason_and_changes_nothing_else",
    ),
]

_BACK = "SET lease_seconds = %(lease)s, finished_at = NULL"

TAKEN_BACK = [
    Mutation(
        "a success is taken back without its token",
        _NAMED,
        "%(token)s > 0 AND owner = %(owner)s AND state = 7",
        "a_success_is_taken_back_by_nobody_else",
        where=_BACK,
    ),
    Mutation(
        "a success is taken back by another owner",
        _NAMED,
        "token = %(token)s AND %(owner)s <> '' AND state = 7",
        "a_success_is_taken_back_by_nobody_else",
        where=_BACK,
    ),
    Mutation(
        "what is no success is taken back",
        _NAMED,
        "token = %(token)s AND owner = %(owner)s",
        "only_a_success_is_taken_back",
        where=_BACK,
    ),
    Mutation(
        "what is taken back keeps the time of its end",
        ", finished_at = NULL, open_at",
        ", open_at",
        "a_committed_run_is_taken_back_by_its_own_claim_and_may_be_settled",
        where=_BACK,
    ),
    Mutation(
        "what is taken back is not running",
        "due_at = {after[lease]}, state = 2",
        "due_at = {after[lease]}, state = 3",
        "a_committed_run_is_taken_back_by_its_own_claim_and_may_be_settled",
        where=_BACK,
    ),
    Mutation(
        "what is taken back has no lease",
        "open_at = {after[lease]},",
        "open_at = {now},",
        "a_committed_run_is_taken_back_by_its_own_claim_and_may_be_settled",
        where=_BACK,
    ),
]

ATOMIC_POSTGRESQL = [
    Mutation(
        "a first atomic claim waits for another transaction",
        "WHERE {unheld}",
        "WHERE true",
        "an_atomic_claim_does_not_wait_for_a_reservation",
        where=NEW,
    ),
    Mutation(
        "an atomic claim of a reservation does not lock the key",
        "AND {unheld} AND",
        "AND",
        "an_atomic_claim_does_not_wait_for_another_one_of_the_key",
        where="AND task_id = %(task_id)s AND task = %(task)s",
    ),
    Mutation(
        "an atomic takeover does not lock the key",
        " AND {unheld}",
        "",
        "an_atomic_claim_does_not_wait_for_another_one_of_the_key",
        where="OR %(uncount)s = 1",
    ),
    Mutation(
        "an atomic run anew does not lock the key",
        "AND {unheld} AND {bounded} FOR UPDATE",
        "FOR UPDATE",
        "an_atomic_claim_does_not_wait_for_another_one_of_the_key",
    ),
    Mutation(
        "an atomic claim keeps its key when it is rolled back",
        "WHERE {unheld}",
        "WHERE pg_try_advisory_lock(%(lock)s)",
        "a_key_whose_atomic_run_was_rolled_back_is_free_for_other_connections_at_once",
        where=NEW,
    ),
    Mutation(
        "who holds a key does not look whether another has it",
        "SELECT pg_try_advisory_xact_lock(%(lock)s)",
        "SELECT %(lock)s IS NOT NULL",
        "who_wants_to_hold_a_key_does_not_wait_for_an_atomic_run",
    ),
    Mutation(
        "who holds a key waits for who has it",
        "SELECT pg_try_advisory_xact_lock(%(lock)s)",
        "SELECT pg_advisory_xact_lock(%(lock)s) IS NOT NULL",
        "who_wants_to_hold_a_key_does_not_wait_for_who_holds_it",
    ),
    Mutation(
        "who held a key never gives it back",
        "SELECT pg_try_advisory_xact_lock(%(lock)s)",
        "SELECT pg_try_advisory_lock(%(lock)s)",
        "who_wants_to_hold_a_key_does_not_wait_for_who_holds_it",
    ),
    Mutation(
        "a call replaced by an atomic run is not remembered",
        "WHERE replaced.task_id IS NOT NULL",
        "WHERE false",
        "a_call_replaced_by_an_atomic_run_is_answered_with_how_it_ended",
        where=ANEW,
    ),
    Mutation(
        "a runner replaced by an atomic run is not remembered",
        "(VALUES (old.task_id), (old.runner_task_id))",
        "(VALUES (old.task_id))",
        "a_runner_replaced_by_an_atomic_run_is_answered_as_well",
        where=ANEW,
    ),
    Mutation(
        "a call replaced by an atomic run is remembered for ever",
        "AND due_at > {now}\n  ON CONFLICT",
        "\n  ON CONFLICT",
        "a_call_that_ended_before_the_window_is_not_remembered_by_an_atomic_run",
        where=ANEW,
    ),
]

ATOMIC_SQLITE = [
    Mutation(
        "a call replaced by an atomic run is not remembered",
        "(replaced.which = 0 OR runner_task_id IS NOT NULL)",
        "false",
        "a_call_replaced_by_an_atomic_run_is_answered_with_how_it_ended",
    ),
    Mutation(
        "a runner replaced by an atomic run is not remembered",
        "(replaced.which = 0 OR runner_task_id IS NOT NULL)",
        "replaced.which = 0",
        "a_runner_replaced_by_an_atomic_run_is_answered_as_well",
    ),
]
