"""Mistakes that one could make in the statements: of both stores, and of each alone."""

from __future__ import annotations

from tests.ledger.stores.mutants.mistakes.atomic import ATOMIC_CLAIMS, ATOMIC_TAKEOVERS, COUNTED
from tests.ledger.stores.mutants.mistakes.atomic_ends import (
    ATOMIC_POSTGRESQL,
    ATOMIC_RECLAIMS,
    ATOMIC_RESULTS,
    ATOMIC_SQLITE,
    TAKEN_BACK,
)
from tests.ledger.stores.mutants.mistakes.batch_ends import ENDS, ENDS_POSTGRESQL
from tests.ledger.stores.mutants.mistakes.batching import CHUNKS, CHUNKS_POSTGRESQL, SUBMISSIONS
from tests.ledger.stores.mutants.mistakes.claiming import CLAIMS, FINISHED_KEYS
from tests.ledger.stores.mutants.mistakes.counting import HOURS
from tests.ledger.stores.mutants.mistakes.deciding import DECISIONS, OPERATIONS
from tests.ledger.stores.mutants.mistakes.failing import EXTERNAL_CALLS, RECORDS, SILENCE
from tests.ledger.stores.mutants.mistakes.following import FOLLOW_UPS, FOLLOW_UPS_POSTGRESQL
from tests.ledger.stores.mutants.mistakes.many import MANY, MANY_AS_ARRAYS
from tests.ledger.stores.mutants.mistakes.moving import MOVES
from tests.ledger.stores.mutants.mistakes.pausing import PAUSES
from tests.ledger.stores.mutants.mistakes.pruning import PRUNES
from tests.ledger.stores.mutants.mistakes.reserving import (
    INTERVENTIONS,
    RESERVATIONS,
    RESERVATIONS_ANEW,
    SENT,
)
from tests.ledger.stores.mutants.mistakes.settling import DEAD_OWNERS, SETTLEMENTS
from tests.ledger.stores.mutants.mistakes.stepping import STEPS, STEPS_POSTGRESQL
from tests.ledger.stores.mutants.mistakes.sweeping import DUTIES, SWEEPS
from tests.ledger.stores.mutants.mistakes.vendors import POSTGRESQL as POSTGRESQL_ALONE
from tests.ledger.stores.mutants.mistakes.vendors import SQLITE as SQLITE_ALONE
from tests.ledger.stores.mutants.mistakes.workers import WORKERS

__all__ = ["BOTH", "POSTGRESQL", "SQLITE"]

BOTH = [
    *CLAIMS,
    *FINISHED_KEYS,
    *RESERVATIONS,
    *RESERVATIONS_ANEW,
    *MANY,
    *SENT,
    *SETTLEMENTS,
    *DEAD_OWNERS,
    *RECORDS,
    *SILENCE,
    *EXTERNAL_CALLS,
    *DECISIONS,
    *OPERATIONS,
    *PAUSES,
    *INTERVENTIONS,
    *SWEEPS,
    *PRUNES,
    *HOURS,
    *STEPS,
    *MOVES,
    *SUBMISSIONS,
    *CHUNKS,
    *ENDS,
    *FOLLOW_UPS,
    *DUTIES,
    *WORKERS,
    *ATOMIC_CLAIMS,
    *ATOMIC_TAKEOVERS,
    *COUNTED,
    *ATOMIC_RECLAIMS,
    *ATOMIC_RESULTS,
    *TAKEN_BACK,
]

POSTGRESQL = [
    *POSTGRESQL_ALONE,
    *MANY_AS_ARRAYS,
    *ATOMIC_POSTGRESQL,
    *STEPS_POSTGRESQL,
    *CHUNKS_POSTGRESQL,
    *ENDS_POSTGRESQL,
    *FOLLOW_UPS_POSTGRESQL,
]

SQLITE = [*SQLITE_ALONE, *ATOMIC_SQLITE]
