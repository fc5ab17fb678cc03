"""The dashboard: first what needs a person, then what goes on."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ..management.status import Status, findings, look
from ..management.text import since, span
from ..models import HourlyCount, IdempotencyKey
from ..states import State
from .answers import lease
from .charts import busiest, charts, counted_words, hours, totals
from .ledger import alias, now, store
from .progress import bar
from .readonly import ReadOnlyAdmin
from .rows import has
from .wording import at, cell, shown, state_word

#: Running keys that are listed.
SHOWN = 20
NAME = "django_idempotent_tasks_dashboard"

#: Which list shows what a finding is about.
_LISTS = {
    "expired_leases": ("idempotencykey", {"state": int(State.RUNNING)}),
    "pending_overdue": ("idempotencykey", {"state": int(State.PENDING)}),
    "retry_overdue": ("idempotencykey", {"state": int(State.RETRY)}),
    "failed": ("deadletter", {"state": int(State.FAILED)}),
    "review": ("deadletter", {"state": int(State.REVIEW)}),
}


@dataclass(frozen=True, slots=True)
class Tile:
    """One number, perhaps a link."""

    label: str
    value: str
    url: str = ""


@admin.register(HourlyCount)
class HourlyCountAdmin(ReadOnlyAdmin):
    """Totals of an hour, and the dashboard that shows them."""

    list_display = ("when", "task_shown", "created", "succeeded", "failed", "duplicates", "crashes")
    list_filter = ()
    ordering = ("-hour", "task")
    list_display_links = None

    def get_urls(self) -> list[Any]:
        return [
            path("dashboard/", self.admin_site.admin_view(self.dashboard), name=NAME),
            *super().get_urls(),
        ]

    @admin.display(description=gettext_lazy("hour"))
    def when(self, row: HourlyCount) -> str:
        """Its beginning."""
        return at(row.hour)

    @admin.display(description=gettext_lazy("task"))
    def task_shown(self, row: HourlyCount) -> str:
        """The task's full name; empty: the hour was counted."""
        return cell(row.task) if row.task else "-"

    def dashboard(self, request: HttpRequest) -> HttpResponse:
        """The page; for those who may see keys."""
        if not has(request, "view_idempotencykey"):
            raise PermissionDenied
        seen, moment = look(store()), now(request)
        counted = hours(moment)
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": _("Idempotent tasks: what needs a person, and what goes on"),
            "media": self.media,
            "findings": _findings(request, seen),
            "tiles": _tiles(request, seen),
            "running": _running(moment),
            "charts": charts(counted, moment),
            "totals": totals(counted, moment),
            "columns": [_("last full hour"), _("24 hours"), _("7 days")],
            "counted": counted_words(counted, moment),
            "tasks": busiest(moment),
        }
        request.current_app = self.admin_site.name
        return TemplateResponse(request, "admin/django_idempotent_tasks/dashboard.html", context)


def _findings(request: HttpRequest, seen: Status) -> list[dict[str, str]]:
    return [{"text": shown(each.text), "url": _list_of(request, each.name)} for each in findings(seen)]


def _list_of(request: HttpRequest, name: str) -> str:
    model, query = _LISTS.get(name, ("", {}))
    return _list(request, model, query) if model else ""


def _list(request: HttpRequest, model: str, query: dict[str, int]) -> str:
    if not has(request, f"view_{model}"):
        return ""
    return f"{reverse(f'admin:django_idempotent_tasks_{model}_changelist')}?{urlencode(query)}"


def _tiles(request: HttpRequest, seen: Status) -> list[Tile]:
    states = [
        Tile(
            state_word(state), str(seen.count(state)), _list(request, "idempotencykey", {"state": int(state)})
        )
        for state in State
    ]
    oldest = seen.states[State.PENDING]["oldest"]
    return [
        *states,
        Tile(_("oldest pending"), _("none") if oldest is None else since(oldest, seen.now)),
        Tile(_("relay lag: what is due and not sent"), _lag(seen)),
        Tile(_("sweeper"), _("leads") if seen.is_led else _("nobody leads")),
    ]


def _lag(seen: Status) -> str:
    """How long the row that is due first has waited to be sent."""
    keys = IdempotencyKey.objects.using(alias())
    due = [
        keys.filter(state=state, due_at__lte=seen.now)
        .order_by("due_at")
        .values_list("due_at", flat=True)
        .first()
        for state in (State.PENDING, State.RETRY)
    ]
    first = min(filter(None, due), default=None)
    return _("none") if first is None else span((seen.now - first).total_seconds())


def _running(moment: datetime) -> list[dict[str, str]]:
    rows = IdempotencyKey.objects.using(alias()).filter(state=State.RUNNING).order_by("due_at")
    return [
        {
            "url": reverse("admin:django_idempotent_tasks_idempotencykey_change", args=[row.pk]),
            "key": cell(row.key_text),
            "task": cell(row.task),
            "holder": cell(row.owner),
            "attempt": str(row.attempts),
            "elapsed": since(row.started_at, moment),
            "lease": lease(row, moment),
            "progress": bar(row) if row.progress else "-",
        }
        for row in rows.defer("message", "result")[:SHOWN]
    ]
