"""The pages of calls that did not run: refused duplicates, and calls whose key a later call has taken."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import Max, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from ..models import AnsweredCall, DuplicateAttempt
from ..operations.search import WINDOW
from ..operations.selection import NOT_IN_A_COLUMN
from .lists.filters import ScopeFilter
from .lists.window import Windowed
from .page import ReadOnlyAdmin
from .refusals import refusals
from .words.wording import at, cell, state_word

REFUSALS = "django_idempotent_tasks_refusals"


class CallAdmin(ReadOnlyAdmin):
    """The search that lists of calls share."""

    search_fields = ("task_id",)
    ordering = ("-id",)
    list_display_links = None

    def get_search_results(
        self,
        request: HttpRequest,  # noqa: ARG002
        queryset: QuerySet[Any],
        search_term: str,
    ) -> tuple[QuerySet[Any], bool]:
        term = search_term.strip()
        if not term:
            return queryset, False
        if NOT_IN_A_COLUMN.search(term):
            return queryset.none(), False
        by_digest = _of_digest(term)  # two queries by index: OR over two columns may use neither
        found = queryset.filter(self.named(queryset, term))
        return (found if by_digest is None or found.exists() else queryset.filter(by_digest)), False

    def named(self, rows: QuerySet[Any], term: str) -> Q:  # noqa: ARG002
        """The condition on rows of a task id."""
        return Q(task_id=term)

    @admin.display(description=_("task id"))
    def call(self, row: Any) -> str:
        """The call that did not run."""
        return cell(row.task_id)


def _of_digest(term: str) -> Q | None:
    try:
        return Q(digest=UUID(term))
    except ValueError:
        return None


def _among_the_newest(rows: QuerySet[Any]) -> Q:
    newest = rows.aggregate(newest=Max("id"))["newest"] or 0
    return Q(id__gt=newest - WINDOW)


@admin.register(DuplicateAttempt)
class DuplicateAttemptAdmin(CallAdmin):
    """Calls that were refused because their key was taken."""

    list_display = ("call", "digest", "scope_shown", "reason_shown", "place_shown", "moment")
    list_filter = (ScopeFilter,)
    search_help_text = _("A digest, or a task id among the newest 200,000")

    def get_urls(self) -> list[Any]:
        return [
            path("by-scope/", self.admin_site.admin_view(self.by_scope), name=REFUSALS),
            *super().get_urls(),
        ]

    def list_actions(self, request: HttpRequest) -> list[dict[str, str]]:  # noqa: ARG002
        url = reverse(f"admin:{REFUSALS}", current_app=self.admin_site.name)
        return [{"url": url, "label": gettext("By scope")}]

    def by_scope(self, request: HttpRequest) -> HttpResponse:
        """The page that counts refused calls by scope."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "list_url": self.list_url(request),
            "media": self.media,
            **refusals(request),
        }
        request.current_app = self.admin_site.name
        return TemplateResponse(request, "admin/django_idempotent_tasks/refusals.html", context)

    def named(self, rows: QuerySet[Any], term: str) -> Q:
        return Q(task_id=term) & _among_the_newest(rows)

    def narrowed(self, request: HttpRequest, rows: QuerySet[Any], texts: dict[str, str]) -> Windowed:  # noqa: ARG002
        return Windowed(rows.filter(_among_the_newest(rows)) if texts else rows, is_all=not texts)

    @admin.display(description=_("scope"))
    def scope_shown(self, row: DuplicateAttempt) -> str:
        """The tenant."""
        return cell(row.scope)

    @admin.display(description=_("reason"))
    def reason_shown(self, row: DuplicateAttempt) -> str:
        """Why the duplicate was refused."""
        return cell(row.reason)

    @admin.display(description=_("place"))
    def place_shown(self, row: DuplicateAttempt) -> str:
        """Whether the call was refused when it was sent or in a worker."""
        return cell(row.place)

    @admin.display(description=_("at"))
    def moment(self, row: DuplicateAttempt) -> str:
        """When the call was refused."""
        return at(row.at)


@admin.register(AnsweredCall)
class AnsweredCallAdmin(CallAdmin):
    """Calls whose key a later call has taken."""

    list_display = ("call", "digest", "state_shown", "generation", "until")
    search_help_text = _("A task id in full")

    @admin.display(description=_("state"))
    def state_shown(self, row: AnsweredCall) -> str:
        """How the call ended."""
        return state_word(row.state)

    @admin.display(description=_("kept until"))
    def until(self, row: AnsweredCall) -> str:
        """When the sweeper deletes the answer."""
        return at(row.due_at)
