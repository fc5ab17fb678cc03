"""The pages of failed jobs: each failed attempt with its error; a plain task's can be run again."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, cast
from uuid import UUID

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ..identity.text import public_text
from ..models import FailedJob, IdempotencyKey
from ..operations.finding import MOST
from ..operations.redaction import call_text
from ..operations.workers import worker_words
from .actions.reruns import Rerun
from .lists.filters import AnyTaskFilter, CategoryFilter, HappenedFilter, SignatureFilter
from .lists.finding import Looked, found_in, keys_named, term_of
from .lists.window import Windowed, newest
from .page import ReadOnlyAdmin
from .permissions import has
from .words.cells import labelled, state_cell, task_cell, when, with_small
from .words.ledger import alias, now
from .words.timeline import attempts_beside
from .words.visible import description_of, key_of
from .words.wording import ago, at, block, category_word, cell, dotted, shown, state_word


@admin.register(FailedJob)
class FailedJobAdmin(ReadOnlyAdmin):
    """The list of failed jobs, one row for each failed attempt."""

    list_title = gettext_lazy("Failed attempts")
    list_about = gettext_lazy("Each time that a call failed")
    list_display = (
        "moment",
        "task_shown",
        "key",
        "error_shown",
        "attempt_shown",
        "went_to",
    )
    list_filter = (CategoryFilter, HappenedFilter, AnyTaskFilter, SignatureFilter)
    search_fields = ("task_id",)
    ordering = ("-at",)
    long_columns = ("description", "traceback", "message")
    hidden_columns = MappingProxyType({"key": "view_payload"})
    page_template = "admin/django_idempotent_tasks/failed_job.html"
    row_actions = (Rerun,)

    def get_search_results(
        self,
        request: HttpRequest,
        queryset: QuerySet[Any],
        search_term: str,
    ) -> tuple[QuerySet[Any], bool]:
        term = term_of(request, search_term)
        if not search_term or term.is_blank:
            return (queryset if not search_term else queryset.none()), False
        jobs = FailedJob.objects.using(alias())
        found = [*jobs.filter(task_id=term.text).order_by("-id").values_list("pk", flat=True)[:MOST]]
        of_keys = jobs.filter(digest__in=keys_named(term)).order_by("-id")
        found += of_keys.values_list("pk", flat=True)[:MOST]
        found += found_in(request, term, Looked(jobs, "at"))
        return queryset.filter(pk__in=found), False

    def narrowed(self, request: HttpRequest, rows: QuerySet[Any], equal: dict[str, Any]) -> Windowed:
        """A filter by signature alone has an index."""
        is_bounded = request.GET.get("q") or not equal.keys() - {"signature"}
        return Windowed(rows, is_all=True) if is_bounded else newest(rows, "at")

    @admin.display(description=gettext_lazy("at"))
    def moment(self, row: FailedJob) -> str:
        """When the attempt failed."""
        return when(row, "at")

    @admin.display(description=gettext_lazy("task"))
    def task_shown(self, row: FailedJob) -> str:
        """The task, by its short name."""
        return task_cell(row.task)

    @admin.display(description=gettext_lazy("attempt"))
    def attempt_shown(self, row: FailedJob) -> str:
        """Which attempt of the call it was."""
        return labelled(_("attempt"), row.attempt)

    @admin.display(description=gettext_lazy("key"))
    def key(self, row: FailedJob) -> str:
        """The key; a plain task has none."""
        return cell(row.key_text)

    @admin.display(description=gettext_lazy("key"))
    def key_hidden(self, row: FailedJob) -> str:
        """The key for people who may not see arguments."""
        is_plain = row.key_text is None or row.digest is None
        return cell(None if is_plain else public_text(str(row.key_text), cast("UUID", row.digest)))

    @admin.display(description=gettext_lazy("error"))
    def error_shown(self, row: FailedJob) -> str:
        """The class of the error."""
        return dotted(row.error)

    @admin.display(description=gettext_lazy("went to"))
    def went_to(self, row: FailedJob) -> str:
        """The state that the attempt left its key in, and what kind of failure it was."""
        return with_small(state_cell(row.state), category_word(row.category))

    def page(self, request: HttpRequest, row: FailedJob) -> dict[str, Any]:
        sees = has(request, "view_payload")
        return {
            "key_url": _key_url(request, row),
            "is_plain": row.digest is None,
            "facts": _facts(request, row, now(request)),
            "events": attempts_beside(row, now(request)),
            "job_links": True,
            "sees_traceback": has(request, "view_traceback"),
            "description": block(description_of(request, row.description)),
            "traceback": block(row.traceback) if has(request, "view_traceback") else "",
            "sees_payload": sees,
            "arguments": block(call_text(row.task, row.message)) if sees and row.digest is None else "",
        }


def _facts(request: HttpRequest, row: FailedJob, moment: Any) -> list[tuple[str, str]]:
    found = [
        (_("task"), shown(row.task)),
        (_("scope"), shown(row.scope)),
        (_("key"), shown(key_of(request, row))),
        (_("task id"), shown(row.task_id)),
        (_("attempt"), str(row.attempt)),
        (_("failed"), f"{at(row.at)} ({ago(row.at, moment)})"),
        (_("worker"), shown(worker_words(row.worker))),
        (_("category"), category_word(row.category)),
        (_("error"), shown(row.error)),
        (_("error signature"), shown(row.signature)),
        (_("its key went to") if row.digest else _("ended as"), state_word(row.state)),
    ]
    return [(name, value) for name, value in found if value]


def _key_url(request: HttpRequest, row: FailedJob) -> str:
    """The address of the key's page; empty if the key is gone or this person may not see it."""
    if row.digest is None or not has(request, "view_idempotencykey"):
        return ""
    keys = IdempotencyKey.objects.using(alias())
    if not keys.filter(digest=row.digest).exists():
        return ""
    return reverse("admin:django_idempotent_tasks_idempotencykey_change", args=[row.digest])
