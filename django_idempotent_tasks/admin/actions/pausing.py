"""The actions on pauses: pause the task of a key, and resume what is paused."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django import forms
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ...exceptions import ConfigurationError
from ...models import IdempotencyKey, Pause
from ...operations import pauses
from ...operations.dead_letters import DONE, Decision
from ...operations.pauses import FASTEST
from ..words.ledger import now, store
from ..words.wording import at, shown
from .audit import who
from .question import Question, ReasonForm
from .row import RowAction

#: How long a pause lasts, by the minutes in the form.
_LASTS = (
    ("15", gettext_lazy("15 minutes")),
    ("60", gettext_lazy("one hour")),
    ("240", gettext_lazy("4 hours")),
    ("1440", gettext_lazy("one day")),
    ("10080", gettext_lazy("7 days")),
)


class PauseForm(ReasonForm):
    """How long, and whether for one tenant only."""

    lasts = forms.ChoiceField(label=gettext_lazy("It ends by itself after"), choices=_LASTS, initial="60")
    only = forms.BooleanField(label=gettext_lazy("Only calls of this key's scope"), required=False)
    field_order = ("seen", "lasts", "only", "reason")


class PauseTask(RowAction):
    """Lets the calls of the key's task wait in the ledger, for a time."""

    slug = "pause"
    label = gettext_lazy("Pause this task")
    permissions = ("pause_task",)
    form = PauseForm

    def fits(self, row: IdempotencyKey) -> bool:  # noqa: ARG002
        return True

    def unfit(self, row: IdempotencyKey) -> str:  # noqa: ARG002
        return ""

    def question(self, request: HttpRequest, row: IdempotencyKey) -> Question:  # noqa: ARG002
        lines = [
            _("No worker begins a call of this task from now on, within a few seconds."),
            _("Its calls wait in the ledger, and none is lost. Bodies that run go on to their end."),
            _("When the pause ends, by itself or by a person, the sweeper sends the calls that wait."),
        ]
        facts = [(_("task"), shown(row.task)), (_("scope"), shown(row.scope))]
        title = _("Pause %(task)s?") % {"task": shown(row.task)}
        return Question(title, _("Pause it"), lines, facts, is_grave=True)

    def carry_out(self, request: HttpRequest, row: IdempotencyKey, form: ReasonForm) -> Decision:
        given = form.cleaned_data
        lasts = timedelta(minutes=int(given["lasts"]))
        scope = (row.scope or "") if given["only"] else ""
        if given["only"] and not scope:
            return Decision(done=False, problem=_("This key has no scope: pause the whole task."))
        try:
            pauses.pause(store(), row.task, scope=scope, lasts=lasts, by=who(request), reason=given["reason"])
        except ConfigurationError as error:
            return Decision(done=False, problem=str(error))
        return DONE

    def done(self, row: IdempotencyKey) -> str:
        return _("Paused: %(task)s.") % {"task": shown(row.task)}


class ResumeForm(ReasonForm):
    """At which rate what waits is sent."""

    rate = forms.IntegerField(
        label=gettext_lazy("Calls sent a second"), min_value=1, max_value=FASTEST, required=False
    )
    field_order = ("seen", "rate", "reason")


class Resume(RowAction):
    """Ends a pause now."""

    slug = "resume"
    label = gettext_lazy("Resume it")
    permissions = ("pause_task",)
    form = ResumeForm

    def fits(self, row: Pause) -> bool:
        return row.resumed_at is None and row.drained_at is None

    def unfit(self, row: Pause) -> str:
        if row.resumed_by is None:
            return _("The pause has ended by itself: its time was over.")
        return _("%(who)s has resumed it.") % {"who": shown(row.resumed_by)}

    def question(self, request: HttpRequest, row: Pause) -> Question:
        lines = [_("The sweeper sends the calls that wait, at the rate that you give.")]
        if row.until <= now(request):
            lines = [_("Its time is over already; the sweeper sends the calls that wait.")]
        facts = [
            (_("task"), shown(row.task)),
            (_("scope"), shown(row.scope) if row.scope else _("every scope")),
            (_("calls that wait"), str(pauses.held(store(), row))),
            (_("rate"), _("%(rate)s a second") % {"rate": row.rate}),
            (_("ends by itself"), at(row.until)),
        ]
        return Question(_("Resume %(task)s?") % {"task": shown(row)}, _("Resume it"), lines, facts)

    def mark(self, row: Pause) -> str:
        return str(row.pk)

    def as_seen(self, row: Any, mark: str) -> Any:  # noqa: ARG002
        return row

    def carry_out(self, request: HttpRequest, row: Pause, form: ReasonForm) -> Decision:
        if pauses.resume(store(), row, by=who(request), rate=form.cleaned_data["rate"]):
            return DONE
        row.refresh_from_db()
        return Decision(done=False, problem=self.unfit(row))

    def done(self, row: Pause) -> str:
        return _("Resumed: %(task)s.") % {"task": shown(row)}
