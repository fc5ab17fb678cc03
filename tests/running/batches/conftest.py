"""Each promise on both databases; a broker for each test."""

from __future__ import annotations

from tests.support.batches import desk
from tests.support.deliveries import alias, careless_sqlite
from tests.support.network.holding import line

__all__ = ["alias", "careless_sqlite", "desk", "line"]
