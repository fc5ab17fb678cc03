"""The actions on one dead letter: redrive it, discard it, or mark it as done."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django import forms
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ...ledger.encoding import given_json
from ...models import DEAD, IdempotencyKey
from ...operations import dead_letters
from ...operations.dead_letters import Decision
from ...states import State
from ..permissions import has
from ..words.cells import state_cell
from ..words.ledger import alias, store
from ..words.visible import error_of
from ..words.wording import category_word, shown
from .arguments import form_of_redrive
from .audit import who
from .question import Question, ReasonForm
from .row import RowAction


def _json(text: str) -> Any:
    try:
        return given_json(text)
    except ValueError as error:
        raise forms.ValidationError(_("This is not JSON: %(error)s") % {"error": error}) from None


class ResolveForm(ReasonForm):
    """The reason, and the result that other calls of the key get, as JSON."""

    result = forms.CharField(
        label=gettext_lazy("Result"),
        required=False,
        help_text=gettext_lazy(
            "Write JSON, or leave it empty for no result. Other calls of the key get this result."
        ),
        widget=forms.Textarea(attrs={"rows": 4, "cols": 60}),
    )
    field_order = ("seen", "result", "reason")

    def clean_result(self) -> object:
        """The result as a value."""
        return _json(self.cleaned_data["result"].strip() or "null")


class DecisionAction(RowAction):
    """A decision about a key in FAILED or REVIEW; a key in REVIEW needs the permission ``resolve_review``."""

    def is_allowed(self, request: HttpRequest, row: IdempotencyKey) -> bool:
        if row.state == State.REVIEW:
            return has(request, "resolve_review")
        return super().is_allowed(request, row)

    def find(self, admin: Any, request: HttpRequest, object_id: str) -> IdempotencyKey | None:  # noqa: ARG002
        try:
            digest = UUID(object_id)
        except ValueError:
            return None
        return IdempotencyKey.objects.using(alias()).filter(digest=digest).first()

    def fits(self, row: IdempotencyKey) -> bool:
        return row.state in DEAD and row.discarded_at is None

    def unfit(self, row: IdempotencyKey) -> str:
        return dead_letters.moved_on(store(), row).problem

    def facts(self, request: HttpRequest, row: IdempotencyKey) -> list[tuple[str, str]]:
        """The facts that tell which dead letter is asked about."""
        return [
            (_("task"), shown(row.task)),
            (_("state"), state_cell(row.state)),
            (_("category"), category_word(row.category)),
            (_("scope"), shown(row.scope)),
            (_("call"), shown(row.task_id)),
            (_("error"), shown(error_of(request, row))),
        ]


class Redrive(DecisionAction):
    """Moves the key back to PENDING; the sweeper sends its call."""

    slug = "redrive"
    label = gettext_lazy("Redrive")
    permissions = ("redrive_deadletter",)
    offer = gettext_lazy("redrive it (the same call runs again)")

    def fits(self, row: IdempotencyKey) -> bool:
        """A discarded dead letter can be redriven too."""
        return row.state in DEAD

    def form_for(self, request: HttpRequest, row: Any, *args: Any, **kwargs: Any) -> ReasonForm:
        return form_of_redrive(request, row, *args, **kwargs)

    def entry(self, form: ReasonForm) -> str:
        if form.cleaned_data.get("edited") is None:
            return super().entry(form)
        names, reason = getattr(form, "changed_names", ""), form.cleaned_data["reason"]
        which = f" ({names})" if names else ""
        return _("Redrive with other arguments%(which)s: %(reason)s") % {"which": which, "reason": reason}

    def question(self, request: HttpRequest, row: IdempotencyKey) -> Question:
        lines = [
            _("The same call runs again, under the same key and downstream keys; attempts begin at 0."),
            _("The sweeper sends the call within seconds."),
        ]
        problem = dead_letters.known_problem(row)
        warnings = (
            []
            if problem is None
            else [_("The call is likely to fail again: %(why)s") % {"why": shown(problem)}]
        )
        if dead_letters.redrive_message(row) is None:
            warnings.append(shown(dead_letters.why_unsendable(row)))
        title = _("Redrive %(key)s?") % {"key": shown(row)}
        return Question(title, _("Redrive it"), lines, self.facts(request, row), warnings)

    def carry_out(self, request: HttpRequest, row: IdempotencyKey, form: ReasonForm) -> Decision:
        edited = form.cleaned_data.get("edited")
        reason = form.cleaned_data["reason"]
        return dead_letters.redrive(store(), row, by=who(request), reason=reason, edited=edited)

    def done(self, row: IdempotencyKey) -> str:  # noqa: ARG002
        return _("Redriven: the key is pending, and the sweeper sends its call.")


class Discard(DecisionAction):
    """Takes a dead letter off the lists: its row stays, and a later call may claim the key."""

    slug = "discard"
    label = gettext_lazy("Discard")
    permissions = ("discard_deadletter",)
    is_grave = True
    offer = gettext_lazy("discard it (nobody does the work)")

    def question(self, request: HttpRequest, row: IdempotencyKey) -> Question:
        lines = [
            _("It leaves this list and is not run; its record stays until the sweeper prunes it."),
            _("A later call may claim the key."),
        ]
        title = _("Discard %(key)s?") % {"key": shown(row)}
        return Question(title, _("Discard it"), lines, self.facts(request, row), is_grave=True)

    def carry_out(self, request: HttpRequest, row: IdempotencyKey, form: ReasonForm) -> Decision:
        return dead_letters.discard(store(), row, by=who(request), reason=form.cleaned_data["reason"])

    def done(self, row: IdempotencyKey) -> str:  # noqa: ARG002
        return _("Discarded.")


class Resolve(DecisionAction):
    """Ends the key as SUCCEEDED, with a result that a person types."""

    slug = "resolve"
    label = gettext_lazy("Mark as done")
    permissions = ("resolve_review",)
    form = ResolveForm
    is_grave = True
    offer = gettext_lazy("mark it as done (if its effects have happened)")

    def question(self, request: HttpRequest, row: IdempotencyKey) -> Question:
        lines = [
            _("You say that its effects happened: it succeeds with your result and is not run again."),
            _("Nothing checks your word: look for the effects first, at the provider or in the database."),
        ]
        title = _("Mark %(key)s as done?") % {"key": shown(row)}
        return Question(title, _("Mark it as done"), lines, self.facts(request, row), is_grave=True)

    def carry_out(self, request: HttpRequest, row: IdempotencyKey, form: ReasonForm) -> Decision:
        given = form.cleaned_data
        try:
            return dead_letters.resolve(
                store(), row, given["result"], by=who(request), reason=given["reason"]
            )
        except ValueError as error:
            form.add_error("result", str(error))
            return Decision(done=False, problem=str(error))

    def done(self, row: IdempotencyKey) -> str:  # noqa: ARG002
        return _("Marked as done.")
