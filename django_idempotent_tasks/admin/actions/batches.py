"""The actions on one batch: redrive what failed of it, or cancel it."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from django import forms
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ...models import Batch, BatchState
from ...operations.batch_counts import Numbers, numbers
from ...operations.batch_decisions import cancel, moved_on
from ...operations.batch_redrives import redrive
from ...operations.dead_letters import Decision
from ...states import Category
from ..words.batches import ENDED, batch_state_word
from ..words.ledger import alias, store
from ..words.wording import category_word, shown
from .audit import who
from .question import Question, ReasonForm
from .row import RowAction, number_of


class BatchAction(RowAction):
    """A decision about a batch as it was shown: a redrive in between makes it out of date."""

    def mark(self, row: Batch) -> str:
        return str(row.revision)

    def as_seen(self, row: Any, mark: str) -> Any:
        row.revision = number_of(mark)
        return row

    def unfit(self, row: Batch) -> str:
        return _("The batch is %(state)s.") % {"state": batch_state_word(row.state)}

    def carry_out(self, request: HttpRequest, row: Batch, form: ReasonForm) -> Decision:
        entry = store().lock_batch(row.id)
        if entry is None or entry.revision != row.revision:
            return moved_on(store(), row)
        return self.decide(request, row, form)

    @abstractmethod
    def decide(self, request: HttpRequest, row: Batch, form: ReasonForm) -> Decision:
        """Act on the batch, whose row the open transaction has locked."""

    def facts(self, row: Batch) -> list[tuple[str, str]]:
        """The facts that tell which batch is asked about."""
        return [
            (_("state"), batch_state_word(row.state)),
            (_("task"), shown(row.task)),
            (_("scope"), shown(row.scope)),
            (_("records"), f"{numbers_of(row).records:,}"),
        ]


def numbers_of(row: Batch) -> Numbers:
    """The numbers of one batch."""
    return numbers(alias(), [row.id])[row.id]


class CancelBatch(BatchAction):
    """Ends a batch: chunks that have not begun end as cancelled."""

    slug = "cancel"
    label = gettext_lazy("Cancel the batch")
    permissions = ("cancel_batch",)
    is_grave = True

    def fits(self, row: Batch) -> bool:
        return row.state not in ENDED

    def question(self, request: HttpRequest, row: Batch) -> Question:  # noqa: ARG002
        lines = [
            _("Chunks that wait are cancelled, a submission stops where it is, and no callback is sent."),
            _("Chunks that run now go on to their end; what was done stays done."),
        ]
        title = _("Cancel %(batch)s?") % {"batch": shown(row)}
        return Question(title, _("Cancel the batch"), lines, self.facts(row), is_grave=True)

    def decide(self, request: HttpRequest, row: Batch, form: ReasonForm) -> Decision:
        return cancel(store(), row, by=who(request), reason=form.cleaned_data["reason"])

    def done(self, row: Batch) -> str:  # noqa: ARG002
        return _("Cancelled: what waits ends within seconds.")


class RedriveForm(ReasonForm):
    """The reason, and which records run again."""

    category = forms.ChoiceField(label=gettext_lazy("Which records"), required=False)
    field_order = ("seen", "category", "reason")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        every = [(each.name.lower(), category_word(each)) for each in Category]
        field: Any = self.fields["category"]
        field.choices = [("", _("those of chunks that need attention")), *every]


class RedriveBatch(BatchAction):
    """Runs the chunks that need attention again, or the failed records of one category in new chunks."""

    slug = "redrive"
    label = gettext_lazy("Redrive")
    permissions = ("redrive_batch",)
    form = RedriveForm

    def __init__(self) -> None:
        self._words = ""

    def fits(self, row: Batch) -> bool:
        return row.state != BatchState.CANCELLED

    def entry(self, form: ReasonForm) -> str:
        category = form.cleaned_data["category"] or _("chunks that need attention")
        return f"{self.label}, {category}: {form.cleaned_data['reason']}"

    def question(self, request: HttpRequest, row: Batch) -> Question:  # noqa: ARG002
        found = numbers_of(row)
        lines = [
            _("Chunks that need attention go on where they were: records with an outcome keep it."),
            _("Or records of one category, of chunks that have ended, run again in new chunks."),
        ]
        facts = [
            *self.facts(row),
            (_("chunks that need attention"), f"{found.attention:,}"),
            *((category_word(each), f"{found.outcomes[each.name.lower()]:,}") for each in Category),
        ]
        title = _("Redrive %(batch)s?") % {"batch": shown(row)}
        return Question(title, _("Redrive it"), lines, facts)

    def decide(self, request: HttpRequest, row: Batch, form: ReasonForm) -> Decision:
        name, reason = form.cleaned_data["category"], form.cleaned_data["reason"]
        category = Category[name.upper()] if name else None
        found = redrive(store(), row, category=category, by=who(request), reason=reason)
        self._words = found.words()
        return Decision(done=found.done, problem=self._words)

    def done(self, row: Batch) -> str:  # noqa: ARG002
        return self._words
