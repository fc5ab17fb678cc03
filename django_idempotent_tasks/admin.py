"""The ledger in the Django admin: read-only lists; what came from a task is shown as text only."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Model, QuerySet
from django.http import HttpRequest

from .conf import settings
from .encoding import decode_error
from .message import pretty
from .models import AnsweredCall, DuplicateAttempt, IdempotencyKey
from .states import Reason, State


class ReadOnlyAdmin(admin.ModelAdmin):  # type: ignore[type-arg]  # generic in the stubs only
    """Rows change by transitions only, never by a form. No full COUNT on big tables."""

    show_full_result_count = False

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).using(settings().database)

    def has_add_permission(self, request: HttpRequest) -> bool:  # noqa: ARG002
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:  # noqa: ARG002
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:  # noqa: ARG002
        return False


class ScopedAdmin(ReadOnlyAdmin):
    """Lists that are also searched by tenant."""

    search_fields = ("=task_id", "=digest")
    search_help_text = "A task id or a digest, in full; or scope:NAME for a tenant"

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        word, colon, scope = search_term.partition(":")
        if word == "scope" and colon and "\x00" not in scope:
            return queryset.filter(scope=scope), False
        return super().get_search_results(request, queryset, search_term)


@admin.register(IdempotencyKey)
class IdempotencyKeyAdmin(ScopedAdmin):
    """Which keys there are, who holds them, and how they ended."""

    list_display = (
        "key_text",
        "task",
        "scope",
        "state",
        "attempts",
        "duplicates",
        "created_at",
        "finished_at",
    )
    list_filter = ("state",)
    ordering = ("-created_at",)
    exclude = ("message", "result")
    readonly_fields = ("why", "outcome", "stored_message")

    @admin.display(description="state detail")
    def why(self, key: IdempotencyKey) -> str:
        """The state's reason in words."""
        return Reason(key.reason).name.lower().replace("_", " ")

    @admin.display(description="result or error")
    def outcome(self, key: IdempotencyKey) -> str:
        """What is replayed to duplicates."""
        if key.state in {State.FAILED, State.REVIEW}:
            return decode_error(key.result)
        return key.result or "-"

    @admin.display(description="message")
    def stored_message(self, key: IdempotencyKey) -> str:
        """The call that would be sent again."""
        return pretty(key.message) if key.message else "-"


@admin.register(DuplicateAttempt)
class DuplicateAttemptAdmin(ScopedAdmin):
    """Calls that were refused because their key was taken."""

    list_display = ("task_id", "scope", "reason", "place", "at")
    ordering = ("-id",)


@admin.register(AnsweredCall)
class AnsweredCallAdmin(ReadOnlyAdmin):
    """Calls whose key a later call has taken."""

    list_display = ("task_id", "state", "generation", "due_at")
    search_fields = ("=task_id", "=digest")
    ordering = ("-id",)
