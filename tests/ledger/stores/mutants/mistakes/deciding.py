"""Mistakes in redrives, discards, resolutions, hastened retries, and the progress of redrive operations."""

from __future__ import annotations

from tests.ledger.stores.mutants.broken_store import Mutation

REDRIVE = "crashes = 0, sends = -1"
DISCARD = "discarded_at = {now}"
RESOLVE = "discarded_at = NULL, in_external = {false}, finished_at"

DEAD = "AND token = %(token)s AND state IN (4, 5)"


def _in_any_state(where: str, name: str) -> list[Mutation]:
    return [
        Mutation(
            f"{name} is for any state",
            DEAD,
            "AND token = %(token)s",
            "only_what_has_failed_or_is_in_review_is_decided",
            where=where,
        ),
        Mutation(
            f"{name} is for any token",
            DEAD,
            "AND %(token)s > -9 AND state IN (4, 5)",
            "a_decision_about_a_row_that_has_moved_on_changes_nothing",
            where=where,
        ),
        Mutation(
            f"{name} passes keys in review over",
            "state IN (4, 5)",
            "state = 5",
            {
                REDRIVE: "a_redriven_key_waits_to_be_sent_now_as_if_it_had_never_run",
                DISCARD: "a_discarded_key_is_a_failure_that_is_no_dead_letter_any_more",
                RESOLVE: "a_resolved_key_has_succeeded_with_the_given_result",
            }[where],
            where=where,
        ),
    ]


def _redriven(name: str, old: str, new: str) -> Mutation:
    promise = "a_redriven_key_waits_to_be_sent_now_as_if_it_had_never_run"
    return Mutation(name, old, new, promise, where=REDRIVE)


DECISIONS = [
    *_in_any_state(REDRIVE, "a redrive"),
    *_in_any_state(DISCARD, "a discard"),
    *_in_any_state(RESOLVE, "a resolution"),
    _redriven("a redrive keeps the token", "token = token + 1, attempts = 0", "attempts = 0"),
    _redriven("a redrive keeps the attempts", "attempts = 0, crashes", "crashes"),
    _redriven("a redrive keeps the crashes", "crashes = 0, sends", "sends"),
    _redriven("a redriven message counts as sent", "sends = -1", "sends = 0"),
    _redriven("a redrive keeps the doubt", "in_external = {false}, result", "result"),
    _redriven("a redrive keeps the error", "result = NULL, category", "category"),
    _redriven("a redriven key stays a dead letter", "signature = NULL, discarded", "discarded"),
    _redriven(
        "a redrive keeps its old message", "message = %(message)s", "message = COALESCE(message, %(message)s)"
    ),
    _redriven("a redriven key waits", "due_at = {now}", "due_at = NULL"),
    Mutation(
        "a discard keeps the token",
        "SET token = token + 1, discarded_at",
        "SET discarded_at",
        "of_two_decisions_the_first_counts",
    ),
    Mutation(
        "a discarded key stays in review",
        "ELSE due_at END, state = 5",
        "ELSE due_at END",
        "a_discarded_key_is_a_failure_that_is_no_dead_letter_any_more",
    ),
    Mutation(
        "a discarded key of review is kept for ever",
        "CASE WHEN state = 4 THEN {after[retention]} ELSE due_at END",
        "CASE WHEN %(retention)s > 0 THEN due_at ELSE due_at END",
        "a_key_in_review_that_is_discarded_is_pruned_in_its_time",
    ),
    Mutation(
        "a discard begins the retention anew",
        "CASE WHEN state = 4 THEN {after[retention]} ELSE due_at END",
        "{after[retention]}",
        "a_discard_does_not_lengthen_the_time_of_a_failure",
    ),
    Mutation(
        "what was discarded is discarded again",
        "AND discarded_at IS NULL",
        "",
        "what_was_discarded_is_not_discarded_once_more",
        where=DISCARD,
    ),
    Mutation(
        "a resolution keeps the error",
        "result = %(result)s, message = NULL,",
        "result = COALESCE(result, %(result)s), message = NULL,",
        "a_resolved_key_has_succeeded_with_the_given_result",
        where=RESOLVE,
    ),
    Mutation(
        "a resolved key is pruned with its retention",
        "due_at = {after[kept]}",
        "due_at = {after[retention]}",
        "a_resolved_key_has_succeeded_with_the_given_result",
        where=RESOLVE,
    ),
    Mutation(
        "a retry is hastened for any token",
        "AND token = %(token)s AND state = 3 AND message",
        "AND %(token)s >= 0 AND state = 3 AND message",
        "of_two_people_who_ask_for_one_retry_the_first_is_heard",
    ),
    Mutation(
        "a hastened retry keeps its token",
        "SET token = token + 1, sends = -1, open_at = {now}",
        "SET sends = -1, open_at = {now}",
        "of_two_people_who_ask_for_one_retry_the_first_is_heard",
    ),
    Mutation(
        "a hastened retry counts as sent",
        "token = token + 1, sends = -1, open_at = {now}",
        "token = token + 1, open_at = {now}",
        "a_waiting_retry_that_is_asked_for_is_sent_at_once_and_may_be_claimed",
    ),
    Mutation(
        "what does not wait for a retry is hastened",
        "AND state = 3 AND message IS NOT NULL",
        "AND message IS NOT NULL",
        "only_a_retry_that_can_be_sent_is_asked_for",
    ),
    Mutation(
        "a retry that cannot be sent is hastened",
        "AND state = 3 AND message IS NOT NULL",
        "AND state = 3",
        "only_a_retry_that_can_be_sent_is_asked_for",
    ),
]

OPERATIONS = [
    Mutation(
        "a bite is counted twice",
        "AND redriven + skipped = %(seen)s",
        "AND %(seen)s >= 0",
        "a_bite_that_somebody_else_has_taken_is_not_counted",
    ),
    Mutation(
        "a stopped operation goes on",
        "WHERE id = %(id)s AND state = 1 AND redriven",
        "WHERE id = %(id)s AND redriven",
        "an_operation_that_has_ended_neither_goes_on_nor_is_stopped",
    ),
    Mutation(
        "an operation that is done is stopped",
        "WHERE id = %(id)s AND state = 1",
        "WHERE id = %(id)s",
        "an_operation_that_has_ended_neither_goes_on_nor_is_stopped",
        where="stopped_by",
    ),
    Mutation(
        "an empty bite forgets the place",
        "last_digest = COALESCE(%(digest)s, last_digest)",
        "last_digest = %(digest)s",
        "the_last_bite_ends_the_operation_and_forgets_no_place",
    ),
]
