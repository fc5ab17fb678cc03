"""The ledger in the Django admin: read-only lists, and actions with a reason that are logged."""

from __future__ import annotations

from django.contrib import admin

from . import calls, dashboard, dead_letters, failed_jobs, keys, operations, periodic

__all__ = ["calls", "dashboard", "dead_letters", "failed_jobs", "keys", "operations", "periodic"]

periodic.register(admin.site)
