"""Each promise on both databases; an app and a database for each test."""

from __future__ import annotations

from tests.running.delivery.shadowed import told
from tests.support.deliveries import alias, careless_sqlite, postgresql, shop, till
from tests.support.network.holding import line

__all__ = ["alias", "careless_sqlite", "line", "postgresql", "shop", "till", "told"]
