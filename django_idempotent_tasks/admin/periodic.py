"""The pages of periodic runs: which beat leads, and for each entry what ran, was missed and comes next."""

from __future__ import annotations

from typing import Any

from celery.app import app_or_default
from django.apps import apps
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.translation import gettext as _

from ..beat.checks import BEAT_APP, beat_problem
from ..beat.overview import Overview, entries, overview
from ..beat.shown import periodic_tasks, problem_with
from ..models import BeatCursor
from ..operations.text import since
from ..operations.workers import leader_words
from .actions.run_now import RunNow
from .page import ReadOnlyAdmin
from .words.entries import Occurrences, next_words, passed_over_words, schedule_words, stranger_words
from .words.ledger import alias, now, store
from .words.wording import at, cell, shown

#: How many entries a page shows, and how many occurrences of each.
PAGE, LAST = 50, 3
#: The last page that is shown.
PAGES = 1000


class BeatCursorAdmin(ReadOnlyAdmin):
    """The periodic tasks of django-celery-beat, as the beat of this package sees them."""

    list_filter = ()
    page_template = "admin/django_idempotent_tasks/periodic_run.html"
    row_actions = (RunNow,)

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:  # noqa: ARG002
        """The cursor with its entry; an empty one where no beat has looked at the entry yet."""
        if not (object_id.isascii() and object_id.isdecimal()) or len(object_id) > 18:  # noqa: PLR2004  a bigint
            return None
        found = [] if beat_problem() else periodic_tasks(entries(alias()).filter(pk=int(object_id)), alias())
        if not found:
            return None
        (task,) = found
        cursor = BeatCursor.objects.using(alias()).filter(pk=task.pk).first()
        row = cursor or BeatCursor(periodic_task_id=task.pk, schedule="")
        row.entry = task
        return row

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """The list, for GET only."""
        if request.method not in {"GET", "HEAD"} or not self.has_view_permission(request):
            raise PermissionDenied
        number, problem = _page_number(request), beat_problem()
        end = number * PAGE
        found = [] if problem else _some_entries(end - PAGE, end + 1)
        seen = overview(store(), now(request))
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": _("Periodic runs"),
            "subtitle": None,
            "media": self.media,
            "problem": problem,
            "leaders": [] if seen is None else _leaders(seen),
            "is_led": seen is not None and seen.is_led,
            "rows": self._rows(request, found[:PAGE]),
            "before": number - 1,
            "after": number + 1 if len(found) > PAGE and number < PAGES else 0,
            **(extra_context or {}),
        }
        request.current_app = self.admin_site.name
        return TemplateResponse(request, "admin/django_idempotent_tasks/periodic_runs.html", context)

    def _rows(self, request: HttpRequest, tasks: list[Any]) -> list[dict[str, Any]]:
        cursors = BeatCursor.objects.using(alias()).in_bulk([task.pk for task in tasks])
        rows = [cursors.get(task.pk) or BeatCursor(periodic_task_id=task.pk, schedule="") for task in tasks]
        past, moment = Occurrences(request, rows, number=LAST), now(request)
        return [
            {
                "url": self._url("change", task.pk),
                "run_url": self._url("run_now", task.pk) if RunNow().is_allowed(request, row) else "",
                "name": cell(task.name),
                "task": cell(task.task),
                "enabled": task.enabled,
                "schedule": cell(schedule_words(task)),
                "next": next_words(row, moment, is_enabled=task.enabled),
                "past": past.of(row),
                "passed_over": passed_over_words(row, moment),
                "stranger": stranger_words(row, moment),
                "problem": problem_with(task, row, app=app_or_default(), now=moment),
            }
            for task, row in zip(tasks, rows, strict=True)
        ]

    def page(self, request: HttpRequest, row: BeatCursor) -> dict[str, Any]:
        task, moment = row.entry, now(request)
        facts = [
            (_("task"), shown(task.task)),
            (_("enabled"), _("yes") if task.enabled else _("no")),
            (_("cannot be read"), problem_with(task, row, app=app_or_default(), now=moment)),
            (_("schedule"), shown(schedule_words(task))),
            (_("next"), next_words(row, moment, is_enabled=task.enabled)),
            (_("passed over"), passed_over_words(row, moment) or _("none")),
            (_("another beat"), stranger_words(row, moment)),
            (_("runs in all"), f"{task.total_run_count:,}"),
            (_("description"), shown(task.description) if task.description else ""),
        ]
        return {
            "facts": [(name, value) for name, value in facts if value],
            "past": Occurrences(request, [row]).of(row),
            "history_url": self._url("history", row.pk),
            "edit_url": _edit_url(request, task),
        }

    def _url(self, name: str, pk: int) -> str:
        route = f"admin:{self.opts.app_label}_{self.opts.model_name}_{name}"
        return reverse(route, args=[pk], current_app=self.admin_site.name)


def register(site: admin.AdminSite) -> None:
    """Add the pages to an admin site if django-celery-beat is installed."""
    if apps.is_installed(BEAT_APP):
        site.register(BeatCursor, BeatCursorAdmin)


def _some_entries(start: int, end: int) -> list[Any]:
    return periodic_tasks(entries(alias()).order_by("name")[start:end], alias())


def _page_number(request: HttpRequest) -> int:
    text = request.GET.get("p", "1")
    number = int(text) if text.isascii() and text.isdecimal() and len(text) < 5 else 1  # noqa: PLR2004
    return min(max(number, 1), PAGES)


def _leaders(seen: Overview) -> list[dict[str, str]]:
    """Who leads or led last, and who stands by to take over."""
    if seen.leader is None:
        return []
    ended = None if seen.is_led else seen.leader.expires_at
    first = (
        _("leads for %(span)s, since %(at)s")
        if ended is None
        else _("led until %(at)s, %(span)s ago: nobody leads now")
    )
    moment = ended or seen.leader.since
    words = first % {"span": since(moment, seen.now), "at": at(moment)}
    return [
        {"holder": cell(leader_words(seen.leader.holder)), "words": words},
        *(
            {
                "holder": cell(leader_words(each.holder)),
                "words": _("stands by for %(span)s") % {"span": since(each.since, seen.now)},
            }
            for each in seen.standbys
        ),
    ]


def _edit_url(request: HttpRequest, task: Any) -> str:
    """The address of django-celery-beat's own form; empty for people who may not open it."""
    names = [f"{BEAT_APP}.{kind}_periodictask" for kind in ("view", "change")]
    if not any(request.user.has_perm(name) for name in names):
        return ""
    site: Any = admin.site
    is_there = site.is_registered(type(task))
    return reverse(f"admin:{BEAT_APP}_periodictask_change", args=[task.pk]) if is_there else ""
