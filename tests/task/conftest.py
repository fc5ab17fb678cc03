"""An app that runs every task where it is called."""

from __future__ import annotations

from tests.support.eager import app
from tests.support.ledger.quick import emptied_by_delete

__all__ = ["app", "emptied_by_delete"]
