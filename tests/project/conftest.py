"""A delivery to follow through the rooms."""

from __future__ import annotations

from tests.support.deliveries import till

__all__ = ["till"]
