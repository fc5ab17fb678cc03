"""The pages of batches: how far each is, and one with its chunks, its errors and what failed as CSV."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any
from uuid import UUID

from django.contrib import admin
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponseBase, StreamingHttpResponse
from django.urls import path, reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ..identity.text import public_text
from ..models import Batch, ChunkState
from ..operations.batch_counts import numbers
from ..operations.batch_csv import csv_lines
from ..operations.batch_errors import by_signature, failed, in_order
from ..operations.batch_sentences import what_next
from .actions.batches import CancelBatch, RedriveBatch, numbers_of
from .lists.filters import BatchStateFilter, MadeFilter, ScopeFilter, TaskFilter
from .lists.finding import Looked, found_in, term_of
from .lists.window import Windowed, newest
from .page import BoundedChangeList, ReadOnlyAdmin
from .permissions import has
from .words.badges import badge, look_of_batch
from .words.batches import (
    ERRORS,
    batch_bar,
    batch_key,
    batch_state_word,
    chunk_counts,
    chunk_lines,
    error_lines,
    outcome_lines,
)
from .words.cells import scope_cell, task_cell, when
from .words.ledger import alias, now
from .words.wording import ago, cell, shown


class CountedChangeList(BoundedChangeList):
    """A list whose rows know their numbers, read by one statement for all rows of the page."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        rows: list[Any] = list(self.result_list)
        counted = numbers(alias(), [row.id for row in rows])
        for row in rows:
            row.numbers = counted[row.id]
        self.result_list: Any = rows


@admin.register(Batch)
class BatchAdmin(ReadOnlyAdmin):
    """The list of batches, each with a bar."""

    list_display = ("key", "state_shown", "progress", "task_shown", "age", "scope_shown")
    list_filter = (BatchStateFilter, MadeFilter, TaskFilter, ScopeFilter)
    list_per_page = 25
    search_fields = ("id",)
    list_title = gettext_lazy("Batches")
    list_about = gettext_lazy("Many records under one name")
    ordering = ("-created_at",)
    long_columns = ("callback", "on_attention")
    hidden_columns = MappingProxyType({"key": "view_payload"})
    page_template = "admin/django_idempotent_tasks/batch.html"
    row_actions = (RedriveBatch, CancelBatch)

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[CountedChangeList]:  # noqa: ARG002
        return CountedChangeList

    def get_search_results(
        self,
        request: HttpRequest,
        queryset: QuerySet[Any],
        search_term: str,
    ) -> tuple[QuerySet[Any], bool]:
        term = term_of(request, search_term)
        if not search_term or term.is_blank:
            return (queryset if not search_term else queryset.none()), False
        batches = Batch.objects.using(alias())
        found: set[UUID] = set(found_in(request, term, Looked(batches, "created_at")))
        if term.is_an_id:
            found.add(UUID(term.text))
        return queryset.filter(pk__in=found), False

    def narrowed(self, request: HttpRequest, rows: QuerySet[Any], equal: dict[str, Any]) -> Windowed:
        if request.GET.get("q") or not equal.keys() - {"state"}:
            return Windowed(rows, is_all=True)
        return newest(rows, "created_at")

    def get_urls(self) -> list[Any]:
        view = self.admin_site.admin_view(self.failed)
        name = f"{self.opts.app_label}_{self.opts.model_name}_failed"
        return [path("<path:object_id>/failed.csv", view, name=name), *super().get_urls()]

    def failed(self, request: HttpRequest, object_id: str) -> HttpResponseBase:
        """What failed, as CSV, a page of records at a time; columns only for who may see them."""
        row = self.get_object(request, unquote(object_id))
        if request.method not in {"GET", "HEAD"} or not self.has_view_permission(request, row):
            raise PermissionDenied
        if row is None:
            return self.missing(request)
        values, descriptions = has(request, "view_payload"), has(request, "view_traceback")
        found = in_order(failed(alias(), row.id), values=values)
        lines = csv_lines(found, descriptions=descriptions, values=values)
        headers = {
            "Content-Disposition": f'attachment; filename="failed-{row.id}.csv"',
            "X-Content-Type-Options": "nosniff",
        }
        return StreamingHttpResponse(lines, content_type="text/csv; charset=utf-8", headers=headers)

    @admin.display(description=gettext_lazy("key"))
    def key(self, row: Batch) -> str:
        """The key as people know it."""
        return cell(row.key_text)

    @admin.display(description=gettext_lazy("key"))
    def key_hidden(self, row: Batch) -> str:
        """The key for people who may not see arguments."""
        return cell(public_text(row.key_text, row.id))

    @admin.display(description=gettext_lazy("state"))
    def state_shown(self, row: Batch) -> str:
        """The state in a word."""
        return badge(batch_state_word(row.state), look_of_batch(row.state))

    @admin.display(description=gettext_lazy("progress"))
    def progress(self, row: Any) -> str:
        """How many of its records have an outcome, as a bar with numbers."""
        return batch_bar(row, row.numbers)

    @admin.display(description=gettext_lazy("task"))
    def task_shown(self, row: Batch) -> str:
        """The task, by its short name."""
        return task_cell(row.task)

    @admin.display(description=gettext_lazy("scope"))
    def scope_shown(self, row: Batch) -> str:
        """The tenant."""
        return scope_cell(row.scope)

    @admin.display(description=gettext_lazy("made"))
    def age(self, row: Batch) -> str:
        """When its submission began."""
        return when(row, "created_at")

    def page(self, request: HttpRequest, row: Batch) -> dict[str, Any]:
        found = numbers_of(row)
        state, after = _state_in(request), _after_in(request)
        lines, more = chunk_lines(request, row, state=state, after=after)
        name = f"admin:{self.opts.app_label}_{self.opts.model_name}"
        return {
            "bar": batch_bar(row, found),
            "next": what_next(row, now(request)),
            "facts": _facts(request, row),
            "outcomes": outcome_lines(found),
            "chunk_counts": chunk_counts(found),
            "chunks": lines,
            "more": "" if not more else _query(state, more),
            "errors": error_lines(request, by_signature(alias(), row.id, ERRORS)),
            "sees_traceback": has(request, "view_traceback"),
            "csv_url": reverse(f"{name}_failed", args=[row.pk], current_app=self.admin_site.name)
            if found.failed
            else "",
            "history_url": reverse(f"{name}_history", args=[row.pk], current_app=self.admin_site.name),
        }


def _facts(request: HttpRequest, row: Batch) -> list[tuple[str, str]]:
    moment = now(request)
    found = [
        (_("state"), batch_state_word(row.state)),
        (_("task"), shown(row.task)),
        (_("scope"), shown(row.scope)),
        (_("key"), batch_key(request, row)),
        (_("id"), str(row.id)),
        (_("records of a chunk"), f"{row.chunk_size:,}"),
        (_("made"), ago(row.created_at, moment)),
        (_("submitted in full"), ago(row.sealed_at, moment) if row.sealed_at else _("no")),
        (_("needs attention since"), ago(row.attention_at, moment) if row.attention_at else ""),
        (_("finished"), ago(row.finished_at, moment) if row.finished_at else ""),
        (_("cancelled by"), shown(row.cancelled_by) if row.cancelled_by else ""),
        (_("reason"), shown(row.reason) if row.reason else ""),
    ]
    return [(name, value) for name, value in found if value]


def _state_in(request: HttpRequest) -> int | None:
    """The state of the chunks that a person has chosen."""
    text = request.GET.get("chunks", "")
    return int(text) if text in {str(state.value) for state in ChunkState} else None


def _after_in(request: HttpRequest) -> int:
    text = request.GET.get("after", "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else -1  # noqa: PLR2004


def _query(state: int | None, after: int) -> str:
    return f"after={after}" if state is None else f"chunks={state}&after={after}"
