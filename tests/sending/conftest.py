"""Calls sent to the broker, and the queue to look into."""

from __future__ import annotations

from tests.support.deliveries import alias, careless_sqlite, emptied_by_delete, postgresql, shop
from tests.support.post import post

__all__ = ["alias", "careless_sqlite", "emptied_by_delete", "post", "postgresql", "shop"]
