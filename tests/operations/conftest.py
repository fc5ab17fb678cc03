"""Single deliveries on both databases, and calls sent to a broker."""

from __future__ import annotations

from tests.support.deliveries import alias, careless_sqlite, shop, till
from tests.support.post import post

__all__ = ["alias", "careless_sqlite", "post", "shop", "till"]
