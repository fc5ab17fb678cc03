"""The pages of pauses: what is paused, until when and why, and the action that resumes it."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ..models import Pause
from ..operations import pauses
from .actions.pausing import Resume
from .page import ReadOnlyAdmin
from .words.ledger import now, store
from .words.wording import ago, at, cell, dotted, shown


@admin.register(Pause)
class PauseAdmin(ReadOnlyAdmin):
    """The list of pauses, the last one first; a key's page pauses its task."""

    list_display = ("task_shown", "scope_shown", "ends", "who", "why")
    list_filter = ()
    ordering = ("-id",)
    page_template = "admin/django_idempotent_tasks/pause.html"
    row_actions = (Resume,)

    @admin.display(description=gettext_lazy("task"))
    def task_shown(self, row: Pause) -> str:
        """The task's full name."""
        return dotted(row.task)

    @admin.display(description=gettext_lazy("scope"))
    def scope_shown(self, row: Pause) -> str:
        """The tenant, or that it is for all of them."""
        return cell(row.scope) if row.scope else _("every scope")

    @admin.display(description=gettext_lazy("ends"))
    def ends(self, row: Pause) -> str:
        """When it ends, or ended, and who resumed the task."""
        if row.resumed_at is None:
            return at(row.until)
        return _("resumed by %(who)s at %(at)s") % {"who": cell(row.resumed_by), "at": at(row.resumed_at)}

    @admin.display(description=gettext_lazy("paused by"))
    def who(self, row: Pause) -> str:
        """Who paused it."""
        return cell(row.paused_by)

    @admin.display(description=gettext_lazy("reason"))
    def why(self, row: Pause) -> str:
        """Why, in that person's words."""
        return cell(row.reason)

    def page(self, request: HttpRequest, row: Pause) -> dict[str, Any]:
        moment = now(request)
        facts = [
            (_("task"), shown(row.task)),
            (_("scope"), self.scope_shown(row)),
            (_("paused by"), shown(row.paused_by)),
            (_("reason"), shown(row.reason)),
            (_("since"), f"{at(row.since)} ({ago(row.since, moment)})"),
            (_("ends by itself"), at(row.until)),
            (_("resumed by"), shown(row.resumed_by)),
            (_("rate"), _("%(rate)s a second") % {"rate": row.rate}),
            (_("calls that wait"), str(pauses.held(store(), row))),
            (_("no call has waited since"), "-" if row.drained_at is None else at(row.drained_at)),
        ]
        return {"facts": facts}
