"""The pages of redrive operations: how far each is, who began it and why, and the action that stops it."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, gettext_noop

from ..models import OperationState, RedriveOperation
from ..operations import redrives
from ..operations.dead_letters import DONE, Decision
from ..operations.redrives import words_of
from .actions.audit import who
from .actions.question import Question, ReasonForm
from .actions.row import RowAction
from .page import ReadOnlyAdmin
from .words.badges import badge, look_of_operation
from .words.cells import when
from .words.ledger import alias, now
from .words.wording import ago, at, cell, shown


class Stop(RowAction):
    """Stops an operation; what it has redriven stays redriven."""

    slug = "stop"
    label = gettext_lazy("Stop it")
    permissions = ("redrive_deadletter",)
    is_grave = True

    def fits(self, row: RedriveOperation) -> bool:
        return row.state == OperationState.RUNNING

    def unfit(self, row: RedriveOperation) -> str:
        by = "" if row.stopped_by is None else _(" by %(who)s") % {"who": shown(row.stopped_by)}
        return _("It has ended: %(state)s%(by)s.") % {"state": _state(row), "by": by}

    def question(self, request: HttpRequest, row: RedriveOperation) -> Question:  # noqa: ARG002
        lines = [_("The redrive ends here; the calls that it has redriven stay redriven.")]
        facts = [
            (_("redriven"), f"{row.redriven:,}"),
            (_("of"), f"{row.total:,}"),
            (_("by"), shown(row.created_by)),
        ]
        return Question(
            _("Stop %(operation)s?") % {"operation": shown(row)}, _("Stop it"), lines, facts, is_grave=True
        )

    def mark(self, row: RedriveOperation) -> str:
        return str(row.state)

    def as_seen(self, row: Any, mark: str) -> Any:  # noqa: ARG002
        return row

    def carry_out(self, request: HttpRequest, row: RedriveOperation, form: ReasonForm) -> Decision:
        reason = form.cleaned_data["reason"]
        if redrives.stop(row, by=who(request), reason=reason, alias=alias()):
            return DONE
        row.refresh_from_db()
        return Decision(done=False, problem=self.unfit(row))

    def done(self, row: RedriveOperation) -> str:  # noqa: ARG002
        return _("Stopped.")


@admin.register(RedriveOperation)
class RedriveOperationAdmin(ReadOnlyAdmin):
    """The list of redrive operations."""

    list_title = gettext_lazy("Redrives")
    list_about = gettext_lazy("Of many dead letters at once, carried out by the sweeper")
    list_display = ("begun", "progress", "state_shown", "who", "why", "which", "rate_shown")
    list_filter = ()
    ordering = ("-id",)
    page_template = "admin/django_idempotent_tasks/operation.html"
    row_actions = (Stop,)

    @admin.display(description=gettext_lazy("begun"))
    def begun(self, row: RedriveOperation) -> str:
        """When a person began it."""
        return when(row, "created_at")

    @admin.display(description=gettext_lazy("progress"))
    def progress(self, row: RedriveOperation) -> str:
        """How far it is, as a bar with numbers."""
        return bar(row)

    @admin.display(description=gettext_lazy("state"))
    def state_shown(self, row: RedriveOperation) -> str:
        """Running, done, or stopped and by whom."""
        found = badge(_state(row), look_of_operation(row.state))
        return found if row.stopped_by is None else format_html("{} ({})", found, cell(row.stopped_by))

    @admin.display(description=gettext_lazy("asked for by"))
    def who(self, row: RedriveOperation) -> str:
        """Who began it."""
        return cell(row.created_by)

    @admin.display(description=gettext_lazy("reason"))
    def why(self, row: RedriveOperation) -> str:
        """Why, in that person's words."""
        return cell(row.reason)

    @admin.display(description=gettext_lazy("which"))
    def which(self, row: RedriveOperation) -> str:
        """Which dead letters it is for."""
        return cell(words_of(row))

    @admin.display(description=gettext_lazy("rate"))
    def rate_shown(self, row: RedriveOperation) -> str:
        """At most how many keys a second."""
        return _("no limit") if row.rate is None else _("%(rate)s a second") % {"rate": row.rate}

    def page(self, request: HttpRequest, row: RedriveOperation) -> dict[str, Any]:
        moment, found = now(request), redrives.dead_again(row, alias=alias())
        again = "-" if found is None else str(found)
        facts = [
            (_("state"), self.state_shown(row)),
            (_("asked for by"), shown(row.created_by)),
            (_("reason"), shown(row.reason)),
            (_("which"), shown(words_of(row))),
            (_("rate"), self.rate_shown(row)),
            (_("begun"), f"{at(row.created_at)} ({ago(row.created_at, moment)})"),
            (_("matched when it was begun"), f"{row.total:,}"),
            (_("redriven"), f"{row.redriven:,}"),
            (_("left alone: moved on, or nothing to send"), f"{row.skipped:,}"),
            (_("ended"), "-" if row.finished_at is None else at(row.finished_at)),
            (_("dead letters that fit and ended since it began: calls that failed again"), again),
        ]
        return {"facts": facts, "bar": bar(row)}


def bar(row: RedriveOperation) -> str:
    """A bar that needs no script."""
    done = row.redriven + row.skipped
    label = f"{done:,} / {row.total:,}"
    return format_html(
        '<progress value="{}" max="{}">{}</progress> <span>{}</span>',
        done,
        max(row.total, done, 1),
        label,
        label,
    )


#: For translators: the names of the states, as the model has them.
_STATES = (gettext_noop("running"), gettext_noop("done"), gettext_noop("stopped"))


def _state(row: RedriveOperation) -> str:
    return _(str(row.get_state_display()))
