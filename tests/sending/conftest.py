"""Calls sent to the broker, and the queue to look into."""

from __future__ import annotations

from tests.support.deliveries import alias, postgresql, shop
from tests.support.post import post

__all__ = ["alias", "post", "postgresql", "shop"]
