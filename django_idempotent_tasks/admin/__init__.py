"""The ledger in the Django admin: read-only lists, and actions with a reason that are logged."""

from __future__ import annotations

from . import calls, failed_jobs, keys

__all__ = ["calls", "failed_jobs", "keys"]
