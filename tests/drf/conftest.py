"""An app whose messages are looked at."""

from __future__ import annotations

from tests.support.post import post

__all__ = ["post"]
