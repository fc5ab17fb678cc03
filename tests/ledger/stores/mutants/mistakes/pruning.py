"""Mistakes in what is deleted."""

from __future__ import annotations

from tests.ledger.stores.mutants.broken_store import Mutation

PRUNES = [
    Mutation(
        "a prune takes what is not past its time",
        "AND due_at <= {now}\n ORDER BY due_at LIMIT",
        "\n ORDER BY due_at LIMIT",
        "a_finished_key_is_pruned_when_its_time_is_over_and_not_before",
    ),
    Mutation(
        "a prune takes any state",
        "WHERE state = %(state)s AND %(state)s >= 5",
        "WHERE %(state)s >= 5",
        "a_prune_takes_only_the_state_that_it_names",
    ),
    Mutation(
        "a prune takes what is live or in review when asked to",
        "AND %(state)s >= 5",
        "AND %(state)s >= 0",
        "a_key_in_review_or_live_is_never_pruned",
    ),
    Mutation(
        "a prune takes what has no time",
        "AND due_at <= {now}\n ORDER BY",
        "AND (due_at IS NULL OR due_at <= {now})\n ORDER BY",
        "a_failed_key_without_a_time_is_not_pruned",
    ),
    Mutation(
        "a prune has no bounds",
        "ORDER BY due_at LIMIT %(bite)s",
        "ORDER BY due_at LIMIT 1000 + %(bite)s",
        "a_prune_takes_at_most_a_bite_and_the_oldest_first",
        where="%(state)s >= 5",
    ),
    Mutation(
        "a prune takes the newest first",
        "ORDER BY due_at LIMIT",
        "ORDER BY due_at DESC LIMIT",
        "a_prune_takes_at_most_a_bite_and_the_oldest_first",
        where="%(state)s >= 5",
    ),
    Mutation(
        "answers are pruned before their window is over",
        "FROM {answered} WHERE due_at <= {now} ORDER",
        "FROM {answered} ORDER",
        "an_answer_is_pruned_when_its_window_is_over_and_not_before",
    ),
    Mutation(
        "the newest answers are pruned first",
        "WHERE due_at <= {now} ORDER BY due_at LIMIT %(bite)s)",
        "WHERE due_at <= {now} ORDER BY due_at DESC LIMIT %(bite)s)",
        "answers_are_pruned_a_bite_at_a_time_and_the_oldest_first",
        where="FROM {answered}",
    ),
    Mutation(
        "all answers are pruned in one bite",
        "ORDER BY due_at LIMIT %(bite)s)",
        "ORDER BY due_at LIMIT 1000 + %(bite)s)",
        "answers_are_pruned_a_bite_at_a_time_and_the_oldest_first",
        where="FROM {answered}",
    ),
    Mutation(
        "duplicates are pruned before they were counted",
        "WHERE summed = {true} ORDER BY id",
        "ORDER BY id",
        "a_duplicate_is_not_pruned_before_it_was_counted",
    ),
    Mutation(
        "duplicates are pruned whatever their age",
        "WHERE at <= {before[keep]}",
        "WHERE at <= {after[keep]}",
        "a_duplicate_is_pruned_when_it_is_old_and_not_before",
    ),
    Mutation(
        "the newest duplicates are pruned first",
        "WHERE summed = {true} ORDER BY id LIMIT",
        "WHERE summed = {true} ORDER BY id DESC LIMIT",
        "duplicates_are_pruned_a_bite_at_a_time_and_the_oldest_first",
    ),
    Mutation(
        "all duplicates are pruned in one bite",
        "WHERE summed = {true} ORDER BY id LIMIT %(bite)s",
        "WHERE summed = {true} ORDER BY id LIMIT 1000 + %(bite)s",
        "duplicates_are_pruned_a_bite_at_a_time_and_the_oldest_first",
    ),
]
