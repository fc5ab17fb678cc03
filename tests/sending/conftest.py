"""Calls sent to the broker, and the queue to look into."""

from __future__ import annotations

from tests.support.batches import desk, small_groups
from tests.support.deliveries import alias, careless_sqlite, postgresql, shop
from tests.support.post import post

__all__ = ["alias", "careless_sqlite", "desk", "post", "postgresql", "shop", "small_groups"]
