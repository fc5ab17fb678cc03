"""Shows the ledger in the Django admin: read-only lists, and actions that ask for a reason and log it."""

from __future__ import annotations

from django.contrib import admin

from . import calls, dashboard, dead_letters, failed_jobs, keys, operations, periodic

__all__ = ["calls", "dashboard", "dead_letters", "failed_jobs", "keys", "operations", "periodic"]

periodic.register(admin.site)
