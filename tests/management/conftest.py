"""Tables of the tests that commit are emptied quickly."""

from __future__ import annotations

from tests.support.ledger.quick import emptied_by_delete

__all__ = ["emptied_by_delete"]
