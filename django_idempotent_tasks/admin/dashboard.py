"""The dashboard page: first what needs a person, then numbers, charts, tasks, workers and queues."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import Model
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import path
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ..models import Dashboard, HourlyCount
from ..operations.status import look
from ..operations.workers import overview
from .board import charts, index, tables
from .board.needs import needs, paused
from .board.numbers import numbers, tiles
from .board.recent import recent
from .page import ReadOnlyAdmin
from .permissions import has
from .words.ledger import now, store
from .words.wording import at, dotted

NAME = "django_idempotent_tasks_dashboard"
#: The parameter by which the script of the page asks for its content alone.
PART = "part"


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

    def __init__(self, model: type[Model], admin_site: admin.AdminSite) -> None:
        super().__init__(model, admin_site)
        index.arrange(admin_site)

    def get_urls(self) -> list[Any]:
        """The page under its own name, and under the name that the admin's menu uses."""
        view = self.admin_site.admin_view(self.dashboard)
        return [path("", view, name=NAME), path("", view, name=f"{NAME}_changelist")]

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:  # noqa: ARG002
        return has(request, "view_idempotencykey")

    def dashboard(self, request: HttpRequest) -> HttpResponse:
        """The page, for people who may see keys; with ``part`` only what its script reads again."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        request.current_app = self.admin_site.name
        if PART in request.GET:
            return TemplateResponse(
                request, "admin/django_idempotent_tasks/dashboard_part.html", _content(request)
            )
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": _("Dashboard"),
            "media": self.media,
            **_content(request),
        }
        return TemplateResponse(request, "admin/django_idempotent_tasks/dashboard.html", context)


def _content(request: HttpRequest) -> dict[str, Any]:
    """What the page shows, by a bounded number of bounded statements."""
    seen, moment = look(store()), now(request)
    newest, full, fleet = recent(moment), charts.hours(moment), overview(store())
    current = newest.this_hour()
    counted = charts.with_this_hour(full, moment, current)
    return {
        "findings": needs(request, seen),
        "paused": paused(request, seen),
        "tiles": tiles(request, seen, newest),
        "charts": charts.charts(counted, moment, newest),
        "counted": [charts.read_words(newest), charts.counted_words(full, moment)],
        "tasks": tables.tasks(request, moment),
        "workers": tables.workers(request, fleet),
        "queues": tables.queue_lines(fleet),
        "running": tables.running(request, fleet),
        "totals": charts.totals(counted, moment, current),
        "columns": [_("this hour, so far"), _("last full hour"), _("24 hours"), _("7 days")],
        "numbers": numbers(request, seen),
        "moment": at(moment),
    }
