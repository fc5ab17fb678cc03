"""The mutants are tested like the stores that they are made of."""

from __future__ import annotations

from tests.support.ledger.quick import careless_sqlite

__all__ = ["careless_sqlite"]
