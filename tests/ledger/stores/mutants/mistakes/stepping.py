"""Mistakes in what is kept of steps."""

from __future__ import annotations

from tests.ledger.stores.mutants.broken_store import Mutation

KEEP = "INSERT INTO {step}"

STEPS = [
    Mutation(
        "a step is kept for an attempt of another token",
        "AND token = %(token)s",
        "",
        "who_is_not_the_owner_keeps_nothing",
        where=KEEP,
    ),
    Mutation(
        "a step is kept for another owner",
        "AND owner = %(owner)s",
        "",
        "who_is_not_the_owner_keeps_nothing",
        where=KEEP,
    ),
    Mutation(
        "a step of a key that does not run is kept",
        "AND state = 2",
        "",
        "who_is_not_the_owner_keeps_nothing",
        where=KEEP,
    ),
    Mutation(
        "a new generation gets the values of the last one's rows",
        "state = 7 OR",
        "state = 0 OR",
        "a_new_generation_begins_without_the_steps_of_the_last_one",
        where="DELETE FROM {step}",
    ),
    Mutation(
        "other arguments get the values",
        "fingerprint <> CAST(%(fingerprint)s AS {uuid})",
        "fingerprint IS NULL",
        "other_arguments_begin_without_the_steps",
        where="DELETE FROM {step}",
    ),
]

#: The whole database of SQLite is locked.
STEPS_POSTGRESQL = [
    Mutation(
        "a key is taken over between a step and its commit",
        "{locked}",
        "",
        "nobody_takes_a_key_over_between_a_step_and_its_commit",
        where=KEEP,
    ),
]
