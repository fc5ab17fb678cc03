"""Mistakes in what is kept of workers."""

from __future__ import annotations

from tests.ledger.stores.mutants.broken_store import Mutation

WORKERS = [
    Mutation(
        "a worker that speaks again is not seen",
        "seen_at = excluded.seen_at",
        "seen_at = {worker}.seen_at",
        "a_worker_that_speaks_again_is_seen_anew_and_keeps_its_start",
    ),
    Mutation(
        "a worker began when it spoke first",
        "{elapsed_ago}, {now})",
        "{now}, {now})",
        "a_worker_is_known_by_what_it_says",
        where="{worker}",
    ),
    Mutation(
        "a stop ends every worker",
        "WHERE instance = %(instance)s AND stopped_at IS NULL",
        "WHERE %(instance)s = %(instance)s AND stopped_at IS NULL",
        "workers_have_rows_of_their_own",
    ),
    Mutation(
        "a worker stops twice",
        "AND stopped_at IS NULL",
        "AND 1 = 1",
        "a_worker_that_has_stopped_stays_stopped",
        where="{worker}",
    ),
    Mutation(
        "a worker that speaks is forgotten",
        "WHERE seen_at <= {before[keep]}",
        "WHERE started_at <= {before[keep]}",
        "a_worker_is_forgotten_when_it_is_silent_for_long_and_not_before",
    ),
    Mutation(
        "the newest workers are forgotten first",
        "ORDER BY seen_at LIMIT",
        "ORDER BY seen_at DESC LIMIT",
        "workers_are_forgotten_a_bite_at_a_time_and_the_oldest_first",
    ),
    Mutation(
        "all silent workers are forgotten in one bite",
        "ORDER BY seen_at LIMIT %(bite)s",
        "ORDER BY seen_at LIMIT 1000 + %(bite)s",
        "workers_are_forgotten_a_bite_at_a_time_and_the_oldest_first",
    ),
]
