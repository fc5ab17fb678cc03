"""Shows the ledger in the Django admin: read-only lists, and actions that ask for a reason and log it."""

from __future__ import annotations

from django.contrib import admin

from . import batches, calls, dashboard, dead_letters, failed_jobs, keys, operations, pauses, periodic

__all__ = [
    "batches",
    "calls",
    "dashboard",
    "dead_letters",
    "failed_jobs",
    "keys",
    "operations",
    "pauses",
    "periodic",
]

periodic.register(admin.site)
