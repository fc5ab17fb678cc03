"""The pages of calls that did not run: refused duplicates, and calls whose key a later call has taken."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from ..ledger.rules import SHADOW
from ..models import AnsweredCall, DuplicateAttempt
from ..operations.finding import MOST, READ, newest_of
from .lists.filters import ScopeFilter
from .lists.finding import NOTE, keys_named, term_of
from .lists.window import Windowed
from .page import ReadOnlyAdmin
from .refusals import refusals
from .words.cells import scope_cell, state_cell, when
from .words.wording import cell

REFUSALS = "django_idempotent_tasks_refusals"


class CallAdmin(ReadOnlyAdmin):
    """The search that lists of calls share."""

    search_fields = ("task_id",)
    ordering = ("-id",)
    list_display_links = None
    looked_at = READ

    def get_search_results(
        self,
        request: HttpRequest,
        queryset: QuerySet[Any],
        search_term: str,
    ) -> tuple[QuerySet[Any], bool]:
        term = term_of(request, search_term)
        if not search_term or term.is_blank:
            return (queryset if not search_term else queryset.none()), False
        named = keys_named(term)
        setattr(request, NOTE, gettext("Searched: the newest %(read)s rows.") % {"read": f"{READ:,}"})
        found: set[int] = set()  # a query for each column: OR over two may use no index
        conditions: list[dict[str, Any]] = [{"task_id": term.text}, {"digest__in": named}]
        for columns in (*conditions, *self.also(term.text)):
            rows = newest_of(queryset).filter(**columns).order_by("-id")
            found.update(rows.values_list("pk", flat=True)[:MOST])
        return queryset.filter(pk__in=found), False

    def also(self, text: str) -> list[dict[str, Any]]:  # noqa: ARG002
        """Further columns that a search names."""
        return []

    @admin.display(description=_("task id"))
    def call(self, row: Any) -> str:
        """The call that did not run."""
        return cell(row.task_id)


@admin.register(DuplicateAttempt)
class DuplicateAttemptAdmin(CallAdmin):
    """Calls that were refused because their key was taken."""

    list_display = ("call", "digest", "scope_shown", "reason_shown", "place_shown", "moment")
    list_filter = (ScopeFilter,)
    list_title = _("Refused calls")
    list_about = _("Their key was taken")

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

    def also(self, text: str) -> list[dict[str, Any]]:
        return [{"scope": text}]

    def narrowed(self, request: HttpRequest, rows: QuerySet[Any], texts: dict[str, str]) -> Windowed:  # noqa: ARG002
        return Windowed(newest_of(rows) if texts else rows, is_all=not texts)

    @admin.display(description=_("scope"))
    def scope_shown(self, row: DuplicateAttempt) -> str:
        """The tenant."""
        return scope_cell(row.scope)

    @admin.display(description=_("reason"))
    def reason_shown(self, row: DuplicateAttempt) -> str:
        """Why the duplicate was refused."""
        return cell(row.reason)

    @admin.display(description=_("place"))
    def place_shown(self, row: DuplicateAttempt) -> str:
        """Whether the call was refused when it was sent or in a worker, or ran in shadow mode."""
        return gettext("shadow mode: it ran") if row.place == SHADOW else cell(row.place)

    @admin.display(description=_("at"))
    def moment(self, row: DuplicateAttempt) -> str:
        """When the call was refused."""
        return when(row, "at")


@admin.register(AnsweredCall)
class AnsweredCallAdmin(CallAdmin):
    """Calls whose key a later call has taken."""

    list_display = ("call", "digest", "state_shown", "generation", "until")
    list_title = _("Answered calls")
    list_about = _("A later call has their key")

    @admin.display(description=_("state"))
    def state_shown(self, row: AnsweredCall) -> str:
        """How the call ended."""
        return state_cell(row.state)

    @admin.display(description=_("kept until"))
    def until(self, row: AnsweredCall) -> str:
        """When the sweeper deletes the answer."""
        return when(row, "due_at")
