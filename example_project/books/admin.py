"""Read-only lists of what the periodic jobs have written."""

from __future__ import annotations

from django.contrib import admin

from example_project.payments.admin import ReadOnlyAdmin

from .models import JobRun, Reconciliation, Reminder


@admin.register(JobRun)
class JobRunAdmin(ReadOnlyAdmin):
    """Runs of periodic jobs."""

    list_display = ("job", "due_at", "outcome", "created_at")
    list_filter = ("job",)


@admin.register(Reconciliation)
class ReconciliationAdmin(ReadOnlyAdmin):
    """Comparisons with the gateway."""

    list_display = ("tenant", "due_at", "agreed", "only_here", "only_at_gateway")
    list_filter = ("tenant",)


@admin.register(Reminder)
class ReminderAdmin(ReadOnlyAdmin):
    """Messages about pending payments."""

    list_display = ("text", "tenant", "created_at")
    list_filter = ("tenant",)
