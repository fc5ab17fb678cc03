"""Single deliveries on both databases."""

from __future__ import annotations

from tests.support.deliveries import alias, careless_sqlite, shop, till

__all__ = ["alias", "careless_sqlite", "shop", "till"]
