"""The pages of dead letters: the list grouped by error, and one dead letter with its decisions."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any
from urllib.parse import urlencode

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import path, reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from ..identity.text import public_text
from ..ledger.encoding import decode_error, error_parts
from ..models import DeadLetter, FailedJob
from ..operations import dead_letters
from ..operations.groups import Signature, by_age
from ..operations.redaction import call_text
from ..operations.sentences import what_next, why_not_run
from .actions.decisions import Discard, Redrive, Resolve
from .actions.many import VERBS, Verb, ask_picked, matching
from .actions.matching import is_of_discarded, is_of_expected
from .keys import facts
from .lists import waiting
from .lists.filters import (
    CategoryFilter,
    DeadStateFilter,
    DiscardedFilter,
    EndedFilter,
    ScopeFilter,
    SignatureFilter,
    TaskFilter,
)
from .lists.window import Windowed, newest
from .page import ReadOnlyAdmin
from .permissions import has
from .words.batches import batch_url
from .words.cells import scope_cell, state_cell, task_cell, when, with_small
from .words.ledger import alias, now
from .words.steps import step_lines
from .words.timeline import failures, timeline
from .words.visible import description_of, error_of, key_of, title_of
from .words.wording import block, category_word, cell, dotted, sentence, shown

#: The choices of the filter "ended" that a group counts.
_AGES = ("1h", "24h", "7d")


@admin.register(DeadLetter)
class DeadLetterAdmin(ReadOnlyAdmin):
    """Keys in FAILED or REVIEW that nobody has discarded; a filter shows the discarded ones."""

    list_title = gettext_lazy("Dead letters")
    list_about = gettext_lazy("Work that failed for good, or is in doubt")
    list_display = (
        "key",
        "error",
        "ended",
        "task_shown",
        "state_shown",
        "scope_shown",
    )
    list_filter = (
        DeadStateFilter,
        CategoryFilter,
        EndedFilter,
        DiscardedFilter,
        TaskFilter,
        ScopeFilter,
        SignatureFilter,
    )
    search_fields = ("task_id",)
    ordering = ("-finished_at",)
    actions = ("redrive_picked", "discard_picked")
    change_list_template = "admin/django_idempotent_tasks/dead_letters.html"
    page_template = "admin/django_idempotent_tasks/dead_letter.html"
    row_actions = (Redrive, Resolve, Discard)
    long_columns = ("message",)
    hidden_columns = MappingProxyType({"key": "view_payload", "error": "view_traceback"})
    looked_at = waiting.LOOKED_AT

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        if is_of_discarded(request):
            return waiting.discarded()
        return waiting.expected() if is_of_expected(request) else waiting.dead_letters()

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        """A discarded dead letter or an expected end has its page, whichever list links to it."""
        found = super().get_object(request, object_id, from_field)
        return waiting.other_one(object_id) if found is None else found

    def narrowed(self, request: HttpRequest, rows: QuerySet[Any], equal: dict[str, Any]) -> Windowed:
        """A filter without an index reads the rows that ended last."""
        if is_of_discarded(request) and not request.GET.get("q"):
            return waiting.newest_discarded(rows, self.looked_at)
        if not equal.keys() - {"signature"} or request.GET.get("q"):
            return Windowed(rows, is_all=True)
        indexed = {name: value for name, value in equal.items() if name == "signature"}
        return newest(rows.filter(**indexed), "finished_at", self.looked_at)

    def first_rows(self, rows: QuerySet[Any], end: int) -> QuerySet[Any]:
        return waiting.last_ended(rows, end)

    def get_urls(self) -> list[Any]:
        own = [
            path(f"{verb.slug}/", self.admin_site.admin_view(self._many(verb)), name=_many_name(verb))
            for verb in VERBS
        ]
        return own + super().get_urls()

    def _many(self, verb: Verb) -> Any:
        def view(request: HttpRequest) -> HttpResponse:
            return matching(self, request, verb)

        return view

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        """The actions that this person may take; discarded dead letters are decided one by one."""
        found = {} if is_of_discarded(request) else super().get_actions(request)
        for verb in VERBS:
            if not verb.is_allowed(request):
                found.pop(f"{verb.slug}_picked", None)
        return found

    @admin.action(description=gettext_lazy("Redrive the picked ones …"))
    def redrive_picked(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse:
        """Ask whether to redrive them."""
        return self._ask(request, queryset, VERBS[0])

    @admin.action(description=gettext_lazy("Discard the picked ones …"))
    def discard_picked(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse:
        """Ask whether to discard them."""
        return self._ask(request, queryset, VERBS[1])

    def _ask(self, request: HttpRequest, queryset: QuerySet[Any], verb: Verb) -> HttpResponse:
        """Ask about the picked rows; where a person selects across pages, about all that match."""
        if request.POST.get("select_across") == "1":
            return HttpResponseRedirect(self._many_url(request, verb))
        return ask_picked(self, request, verb, list(queryset.only("digest", "token", "task", "key_text")))

    def _many_url(self, request: HttpRequest, verb: Verb) -> str:
        url = reverse(f"admin:{_many_name(verb)}", current_app=self.admin_site.name)
        query = request.GET.copy()
        query.pop("p", None)
        return f"{url}?{query.urlencode()}" if query else url

    def list_actions(self, request: HttpRequest) -> list[dict[str, str]]:
        if is_of_discarded(request):
            return []
        labels = (_("Redrive all that match …"), _("Discard all that match …"))
        return [
            {"url": self._many_url(request, verb), "label": label}
            for verb, label in zip(VERBS, labels, strict=True)
            if verb.is_allowed(request)
        ]

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        is_grouped = request.method == "GET" and not is_of_discarded(request)
        own = {"groups": _groups(request)} if is_grouped and self.has_view_permission(request) else {}
        return super().changelist_view(request, own | (extra_context or {}))

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        if not search_term:
            return queryset, False
        return queryset.filter(pk__in=waiting.searched(request, search_term)), False

    def base_url(self) -> str:
        """The address of the list without a filter."""
        name = "admin:django_idempotent_tasks_deadletter_changelist"
        return reverse(name, current_app=self.admin_site.name)

    @admin.display(description=gettext_lazy("key"))
    def key(self, row: DeadLetter) -> str:
        """The key as people know it."""
        return cell(row.key_text)

    @admin.display(description=gettext_lazy("key"))
    def key_hidden(self, row: DeadLetter) -> str:
        """The key for people who may not see arguments."""
        return cell(public_text(row.key_text, row.digest))

    @admin.display(description=gettext_lazy("task"))
    def task_shown(self, row: DeadLetter) -> str:
        """The task, by its short name."""
        return task_cell(row.task)

    @admin.display(description=gettext_lazy("scope"))
    def scope_shown(self, row: DeadLetter) -> str:
        """The tenant."""
        return scope_cell(row.scope)

    @admin.display(description=gettext_lazy("state"))
    def state_shown(self, row: DeadLetter) -> str:
        """FAILED or REVIEW, and what kind of failure it was."""
        return with_small(state_cell(row.state), category_word(row.category))

    @admin.display(description=gettext_lazy("last error"))
    def error(self, row: DeadLetter) -> str:
        """The error's class and message."""
        return dotted(decode_error(row.result))

    @admin.display(description=gettext_lazy("last error"))
    def error_hidden(self, row: DeadLetter) -> str:
        """The error's class alone, for people who may not see tracebacks."""
        return dotted(error_parts(row.result)[0])

    @admin.display(description=gettext_lazy("ended"))
    def ended(self, row: DeadLetter) -> str:
        """When the key ended, and after how many attempts."""
        words = ngettext("%(count)s attempt", "%(count)s attempts", row.attempts)
        return with_small(when(row, "finished_at"), words % {"count": f"{row.attempts:,}"})

    def page(self, request: HttpRequest, row: DeadLetter) -> dict[str, Any]:
        moment, jobs = now(request), failures(row)
        last = FailedJob.objects.using(alias()).filter(digest=row.digest).order_by("-id").first()
        problem = dead_letters.known_problem(row)
        return {
            "title": title_of(row, key_of(request, row)),
            "badge": state_cell(row.state),
            "answer": sentence(why_not_run(row, moment, error=error_of(request, row))),
            "next": shown(what_next(row, moment)),
            "discarded_url": f"{self.base_url()}?discarded=1" if row.discarded_at else "",
            "batch_url": batch_url(request, row),
            "problem": "" if problem is None else shown(problem),
            "facts": facts(request, row, moment),
            "events": timeline(row, jobs, moment),
            "job_links": has(request, "view_failedjob"),
            "sees_traceback": has(request, "view_traceback"),
            "description": block(
                description_of(request, decode_error(row.result) if last is None else last.description)
            ),
            "traceback": block(last.traceback) if last is not None and has(request, "view_traceback") else "",
            "sees_payload": has(request, "view_payload"),
            "steps": step_lines(row, values=has(request, "view_payload")),
            "arguments": block(call_text(row.task, row.message)) if has(request, "view_payload") else "",
            "key_url": reverse("admin:django_idempotent_tasks_idempotencykey_change", args=[row.pk])
            if has(request, "view_idempotencykey")
            else "",
        }


def _many_name(verb: Verb) -> str:
    return f"django_idempotent_tasks_deadletter_{verb.slug}_many"


def _groups(request: HttpRequest) -> dict[str, Any]:
    """The most frequent errors, with counts by age; each count has the query of the list that shows it."""
    found, is_all = by_age(alias(), now(request))
    return {"rows": [_group(each) for each in found], "is_all": is_all}


def _group(each: Signature) -> dict[str, Any]:
    every = urlencode({"signature": each.signature})
    cells = [
        (number, urlencode({"signature": each.signature, "ended": age}))
        for age, number in zip(_AGES, each.ages, strict=True)
    ]
    error, task = (
        (each.signature, "") if each.last is None else (dotted(each.last.error), task_cell(each.last.task))
    )
    return {"error": error, "task": task, "query": every, "cells": [*cells, (each.count, every)]}
