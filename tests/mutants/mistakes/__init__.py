"""Mistakes that one could make in the statements: of both stores, and of each alone."""

from __future__ import annotations

from tests.mutants.mistakes.claiming import CLAIMS, FINISHED_KEYS
from tests.mutants.mistakes.pruning import PRUNES
from tests.mutants.mistakes.reserving import INTERVENTIONS, RESERVATIONS, RESERVATIONS_ANEW
from tests.mutants.mistakes.settling import DEAD_OWNERS, SETTLEMENTS
from tests.mutants.mistakes.sweeping import DUTIES, SWEEPS
from tests.mutants.mistakes.vendors import POSTGRESQL, SQLITE

__all__ = ["BOTH", "POSTGRESQL", "SQLITE"]

BOTH = [
    *CLAIMS,
    *FINISHED_KEYS,
    *RESERVATIONS,
    *RESERVATIONS_ANEW,
    *SETTLEMENTS,
    *DEAD_OWNERS,
    *INTERVENTIONS,
    *SWEEPS,
    *PRUNES,
    *DUTIES,
]
