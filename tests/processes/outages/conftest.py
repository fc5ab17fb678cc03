"""Servers that go away under real workers."""

from __future__ import annotations

from tests.support.workers.sites import _clean, key, own_site, site

__all__ = ["_clean", "key", "own_site", "site"]
