"""The pages of keys: the list, and one key with its holder, why a call was not run, and what comes next."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ..identity.text import public_text
from ..messages.message import pretty
from ..models import DEAD, IdempotencyKey
from ..operations.obstacles import obstacles
from ..operations.redaction import call_text
from ..operations.sentences import lease, what_next, why_not_run
from ..operations.workers import holder
from ..states import State
from .actions.interventions import Cancel, Release, RetryNow
from .actions.pausing import PauseTask
from .lists.filters import (
    MadeFilter,
    PeriodicFilter,
    ScopeFilter,
    StateFilter,
    TaskFilter,
    age_of,
    hides_periodic,
)
from .lists.finding import Looked, digests_of
from .lists.window import Windowed, newest, of_state
from .page import ReadOnlyAdmin
from .permissions import has
from .words.batches import batch_url
from .words.cells import labelled, scope_cell, state_cell, task_cell, when, with_small
from .words.follow_ups import follow_up
from .words.ledger import alias, now
from .words.progress import bar, state_and_progress
from .words.steps import step_lines
from .words.timeline import failures, refused, timeline
from .words.visible import error_of, key_of, title_of
from .words.wording import ago, block, cell, reason_word, sentence, shown

Facts = list[tuple[str, str]]


@admin.register(IdempotencyKey)
class IdempotencyKeyAdmin(ReadOnlyAdmin):
    """The list of all keys."""

    list_title = gettext_lazy("Keys")
    list_about = gettext_lazy("Each piece of work, and how far it is")
    list_display = ("key", "state_shown", "task_shown", "scope_shown", "calls_shown", "age")
    list_filter = (StateFilter, PeriodicFilter, MadeFilter, TaskFilter, ScopeFilter)
    search_fields = ("task_id",)
    ordering = ("-created_at",)
    long_columns = ("message", "result")
    hidden_columns = MappingProxyType({"key": "view_payload"})
    page_template = "admin/django_idempotent_tasks/key.html"
    row_actions = (RetryNow, Release, Cancel, PauseTask)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        if not search_term:
            return queryset, False
        looked = Looked(IdempotencyKey.objects.using(alias()), "created_at")
        return queryset.filter(pk__in=digests_of(request, search_term, looked)), False

    def narrowed(self, request: HttpRequest, rows: QuerySet[Any], equal: dict[str, Any]) -> Windowed:
        if request.GET.get("q"):
            return Windowed(rows, is_all=True)
        is_cut, every = hides_periodic(request), IdempotencyKey.objects.using(alias())
        if not equal:
            is_cut = is_cut or request.GET.get("periodic") == "only"
            return (
                newest(rows, "created_at", of=_of_age(request, every))
                if is_cut
                else Windowed(rows, is_all=True)
            )
        if "state" not in equal:
            return newest(rows, "created_at", of=_of_age(request, every))
        is_filtered = len(equal) > 1 or any(request.GET.get(name) for name in ("made", "periodic"))
        found = of_state(rows, equal["state"], every, is_filtered=is_filtered)
        if is_cut and equal["state"] == State.SUCCEEDED and found.is_all:
            return newest(found.rows, "due_at", of=every.filter(state=State.SUCCEEDED))
        return found

    @admin.display(description=gettext_lazy("key"))
    def key(self, row: IdempotencyKey) -> str:
        """The key as people know it."""
        return cell(row.key_text)

    @admin.display(description=gettext_lazy("key"))
    def key_hidden(self, row: IdempotencyKey) -> str:
        """The key for people who may not see arguments."""
        return cell(public_text(row.key_text, row.digest))

    @admin.display(description=gettext_lazy("state"))
    def state_shown(self, row: IdempotencyKey) -> str:
        """The state in a word; of a running key also its progress."""
        return state_and_progress(row)

    @admin.display(description=gettext_lazy("task"))
    def task_shown(self, row: IdempotencyKey) -> str:
        """The task, by its short name."""
        return task_cell(row.task)

    @admin.display(description=gettext_lazy("scope"))
    def scope_shown(self, row: IdempotencyKey) -> str:
        """The tenant."""
        return scope_cell(row.scope)

    @admin.display(description=gettext_lazy("attempts"))
    def calls_shown(self, row: IdempotencyKey) -> str:
        """How often a worker has begun it, and how many calls of the key were refused."""
        refused = _("%(count)s refused") % {"count": f"{row.duplicates:,}"} if row.duplicates else ""
        return labelled(_("attempts"), with_small(f"{row.attempts:,}", refused))

    @admin.display(description=gettext_lazy("made"))
    def age(self, row: IdempotencyKey) -> str:
        """When the key was made."""
        return when(row, "created_at")

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        own = {}
        if hides_periodic(request):
            query = request.GET.copy()
            query["periodic"] = "shown"
            own["periodic_url"] = f"?{query.urlencode()}"
        return super().changelist_view(request, own | (extra_context or {}))

    def page(self, request: HttpRequest, row: IdempotencyKey) -> dict[str, Any]:
        moment, jobs = now(request), failures(row)
        calls = refused(row, moment)
        sees = has(request, "view_payload")
        return {
            "title": title_of(row, key_of(request, row)),
            "badge": state_cell(row.state),
            "answer": sentence(why_not_run(row, moment, error=error_of(request, row))),
            "next": shown(" ".join([*obstacles(row, moment), what_next(row, moment)])),
            "letter_url": _letter_url(request, row),
            "batch_url": batch_url(request, row),
            "facts": facts(request, row, moment),
            "events": timeline(row, jobs, moment),
            "refused": calls,
            "has_refused": bool(calls or row.duplicates),
            "job_links": has(request, "view_failedjob"),
            "sees_payload": sees,
            "steps": step_lines(row, values=sees),
            "arguments": block(call_text(row.task, row.message)) if sees else "",
            "result": block(pretty(row.result))
            if sees and row.state == State.SUCCEEDED and row.result
            else "",
        }


def _of_age(request: HttpRequest, rows: QuerySet[Any]) -> QuerySet[Any]:
    """The rows that were made when the filter says: a range of an index."""
    after, before = age_of(request.GET.get("made", ""), now(request))
    rows = rows if after is None else rows.filter(created_at__gte=after)
    return rows if before is None else rows.filter(created_at__lte=before)


def _letter_url(request: HttpRequest, row: IdempotencyKey) -> str:
    """The address of the dead letter's page; empty without one, or without the permission to see it."""
    if row.state not in DEAD or not has(request, "view_deadletter"):
        return ""
    return reverse("admin:django_idempotent_tasks_deadletter_change", args=[row.pk])


def facts(request: HttpRequest, row: IdempotencyKey, moment: Any) -> Facts:
    """The facts of a key in words, for its page and for that of its dead letter."""
    held = row.state == State.RUNNING
    found = [
        (_("state"), state_cell(row.state)),
        (_("because"), reason_word(row.reason) if row.reason else ""),
        (_("task"), shown(row.task)),
        (_("scope"), shown(row.scope)),
        (_("key"), shown(key_of(request, row))),
        (_("digest"), str(row.digest)),
        (_("accepted call"), shown(row.task_id)),
        (_("holder"), holder(row, moment).text if held else ""),
        (_("runs as call"), shown(row.runner_task_id or row.task_id) if held else ""),
        (_("lease"), lease(row, moment) if held else ""),
        (_("follow-up"), follow_up(row)),
        (_("attempts"), str(row.attempts)),
        (_("workers that died"), str(row.crashes)),
        (_("duplicates refused"), str(row.duplicates)),
        (_("fencing token"), str(row.token)),
        (_("generation"), str(row.generation)),
        (_("made"), ago(row.created_at, moment)),
        (_("last attempt"), ago(row.started_at, moment) if row.started_at else ""),
        (_("inside external()"), _("yes") if row.in_external else ""),
        (_("progress"), bar(row) if row.progress else ""),
        (_("error"), _error(request, row)),
    ]
    return [(name, value) for name, value in found if value]


def _error(request: HttpRequest, row: IdempotencyKey) -> str:
    return shown(error_of(request, row)) if row.state in {State.FAILED, State.REVIEW} else ""
