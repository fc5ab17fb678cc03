"""The dashboard page: first what needs a person, then numbers, running keys and charts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import Model
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ..models import Dashboard, HourlyCount, IdempotencyKey
from ..operations.counts import Count
from ..operations.findings import findings
from ..operations.sentences import lease
from ..operations.status import Status, look
from ..operations.text import since
from ..states import State
from .charts import busiest, charts, counted_words, hours, this_hour, totals, with_this_hour
from .page import ReadOnlyAdmin
from .permissions import has
from .words.ledger import alias, now, store
from .words.progress import bar
from .words.visible import key_of
from .words.wording import at, cell, dotted, state_word

#: How many running keys are listed.
SHOWN = 20
NAME = "django_idempotent_tasks_dashboard"

#: Which list shows what a finding is about; a finding without a list is no link.
_LISTS: dict[str, tuple[str, dict[str, int]]] = {
    "expired_leases": ("idempotencykey", {"state": int(State.RUNNING)}),
    "pending_overdue": ("idempotencykey", {"state": int(State.PENDING)}),
    "retry_overdue": ("idempotencykey", {"state": int(State.RETRY)}),
    "prune_behind": ("idempotencykey", {"state": int(State.SUCCEEDED)}),
    "failed": ("deadletter", {"state": int(State.FAILED)}),
    "review": ("deadletter", {"state": int(State.REVIEW)}),
    "beat_no_leader": ("beatcursor", {}),
    "beat_overdue": ("beatcursor", {}),
    "beat_unreadable": ("beatcursor", {}),
    "beat_stranger": ("beatcursor", {}),
}


@dataclass(frozen=True, slots=True)
class Tile:
    """One number of the dashboard, perhaps with a link."""

    label: str
    value: str
    url: str = ""


@admin.register(HourlyCount)
class HourlyCountAdmin(ReadOnlyAdmin):
    """The list of hourly totals."""

    list_display = ("when", "task_shown", "created", "succeeded", "failed", "duplicates", "crashes")
    list_filter = ()
    ordering = ("-hour", "task")
    list_display_links = None

    @admin.display(description=gettext_lazy("hour"))
    def when(self, row: HourlyCount) -> str:
        """The beginning of the hour."""
        return at(row.hour)

    @admin.display(description=gettext_lazy("task"))
    def task_shown(self, row: HourlyCount) -> str:
        """The task's full name; the row without one says that the hour was counted."""
        return dotted(row.task) if row.task else "-"


@admin.register(Dashboard)
class DashboardAdmin(ReadOnlyAdmin):
    """The dashboard: one page where other models have a list."""

    def get_urls(self) -> list[Any]:
        """The page under its own name, and under the name that the admin's menu uses."""
        view = self.admin_site.admin_view(self.dashboard)
        return [path("", view, name=NAME), path("", view, name=f"{NAME}_changelist")]

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:  # noqa: ARG002
        return has(request, "view_idempotencykey")

    def dashboard(self, request: HttpRequest) -> HttpResponse:
        """The page, for people who may see keys."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        seen, moment = look(store()), now(request)
        current, full = this_hour(moment), hours(moment)
        counted = with_this_hour(full, moment, current)
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": _("Dashboard: what needs a person, and what goes on"),
            "media": self.media,
            "findings": _findings(request, seen),
            "tiles": _tiles(request, seen),
            "running": _running(request, moment),
            "charts": charts(counted, moment),
            "totals": totals(counted, moment, current),
            "columns": [_("this hour, so far"), _("last full hour"), _("24 hours"), _("7 days")],
            "counted": counted_words(full, moment),
            "tasks": busiest(moment),
        }
        request.current_app = self.admin_site.name
        return TemplateResponse(request, "admin/django_idempotent_tasks/dashboard.html", context)


def _findings(request: HttpRequest, seen: Status) -> list[dict[str, str]]:
    return [{"text": each.sentence, "url": _list_of(request, each.name)} for each in findings(seen)]


def _list_of(request: HttpRequest, name: str) -> str:
    model, query = _LISTS.get(name, ("", {}))
    return _list(request, model, query) if model else ""


def _list(request: HttpRequest, model: str, query: dict[str, int]) -> str:
    if not has(request, f"view_{model}"):
        return ""
    url = reverse(f"admin:django_idempotent_tasks_{model}_changelist")
    return f"{url}?{urlencode(query)}" if query else url


def _tiles(request: HttpRequest, seen: Status) -> list[Tile]:
    states = [tile for state in State for tile in _of_state(request, seen, state)]
    oldest = seen.states[State.PENDING]["oldest"]
    return [
        *states,
        Tile(_("oldest pending"), _("none") if oldest is None else since(oldest, seen.now)),
        Tile(_("relay lag: how long due messages wait to be sent"), _lag(seen)),
        Tile(_("sweeper"), _leads(seen.is_led)),
        *_beat_tiles(request, seen),
    ]


def _of_state(request: HttpRequest, seen: Status, state: State) -> list[Tile]:
    """One tile for a state; for FAILED two, because discarded keys wait for nobody."""
    every = seen.count(state)
    if state is not State.FAILED:
        return [Tile(state_word(state), str(every), _list(request, "idempotencykey", {"state": int(state)}))]
    kept = seen.count(state, "kept")
    discarded = Count(every.number - kept.number, every.is_bound)
    return [
        Tile(_("failed, to be decided"), str(kept), _list(request, "deadletter", {"state": int(state)})),
        Tile(_("failed and discarded"), str(discarded), _list(request, "deadletter", {"discarded": 1})),
    ]


def _beat_tiles(request: HttpRequest, seen: Status) -> list[Tile]:
    """The tile that leads to the periodic runs; none without beat."""
    if seen.beat is None:
        return []
    return [
        Tile(_("beat, with its periodic runs"), _leads(seen.beat.is_led), _list(request, "beatcursor", {}))
    ]


def _leads(is_led: bool) -> str:  # noqa: FBT001  one word for each value
    return _("has a leader") if is_led else _("no leader")


def _lag(seen: Status) -> str:
    """How long the key that was due first has waited to be sent."""
    keys = IdempotencyKey.objects.using(alias())
    due = [
        keys.filter(state=state, due_at__lte=seen.now)
        .order_by("due_at")
        .values_list("due_at", flat=True)
        .first()
        for state in (State.PENDING, State.RETRY)
    ]
    first = min(filter(None, due), default=None)
    return _("none") if first is None else since(first, seen.now)


def _running(request: HttpRequest, moment: datetime) -> list[dict[str, str]]:
    rows = IdempotencyKey.objects.using(alias()).filter(state=State.RUNNING).order_by("due_at")
    return [
        {
            "url": reverse("admin:django_idempotent_tasks_idempotencykey_change", args=[row.pk]),
            "key": cell(key_of(request, row)),
            "task": dotted(row.task),
            "holder": cell(row.owner),
            "attempt": str(row.attempts),
            "elapsed": since(row.started_at, moment),
            "lease": lease(row, moment),
            "progress": bar(row) if row.progress else "-",
        }
        for row in rows.defer("message", "result")[:SHOWN]
    ]
