"""What the tests of the stores share."""

from __future__ import annotations

from tests.support.early import early_in_a_minute
from tests.support.ledger.quick import careless_sqlite

__all__ = ["careless_sqlite", "early_in_a_minute"]
