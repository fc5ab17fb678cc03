"""The action on a periodic task: run it once now, unless an occurrence waits or runs."""

from __future__ import annotations

from typing import Any

from celery.app import app_or_default
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ...beat.recent import decode
from ...exceptions import ConfigurationError
from ...ledger.moments import database_now
from ...models import BeatCursor, IdempotencyKey
from ...operations.dead_letters import DONE, Decision
from ...operations.tasks import known_task, unknown_task
from ...operations.text import since
from ...operations.workers import holder
from ...states import State
from ..words.entries import schedule_words
from ..words.ledger import alias, store
from ..words.wording import at, shown
from .audit import who
from .question import Question, ReasonForm
from .row import RowAction

#: The mark of an entry that nobody has run by hand.
NOBODY = "nobody"


class RunNow(RowAction):
    """Sends an occurrence at this moment. The schedule does not move; a disabled entry stays disabled."""

    slug = "run_now"
    label = gettext_lazy("Run it now")
    permissions = ("run_periodic",)

    def fits(self, row: BeatCursor) -> bool:
        return _unfinished(row) is None

    def unfit(self, row: BeatCursor) -> str:
        return _busy(_unfinished(row))

    def question(self, request: HttpRequest, row: BeatCursor) -> Question:  # noqa: ARG002
        task = row.entry
        lines = [
            _("The task is sent once, now, with the arguments and to the queue of the entry."),
            _("The schedule does not move: the next run stays as it is."),
        ]
        facts = [(_("task"), shown(task.task)), (_("schedule"), shown(schedule_words(task)))]
        warnings = []
        if not task.enabled:
            warnings.append(_("The entry is disabled and stays disabled: it runs only this once."))
        if known_task(task.task) is None:
            warnings.append(unknown_task())
        return Question(_("Run %(entry)s now?") % {"entry": shown(row)}, _("Run it"), lines, facts, warnings)

    def mark(self, row: BeatCursor) -> str:
        """The last occurrence that was run by hand: a form that is sent twice runs it once."""
        return next((each.digest.hex for each in decode(row.recent) if each.by), NOBODY)

    def as_seen(self, row: Any, mark: str) -> Any:
        row.last_asked = mark
        return row

    def carry_out(self, request: HttpRequest, row: Any, form: ReasonForm) -> Decision:
        from ...beat.asked import run_now  # noqa: PLC0415  it needs django-celery-beat
        from ...beat.cursors import held_alone  # noqa: PLC0415

        asked = self.mark(held_alone(row.pk, store()))
        if asked not in {row.last_asked, NOBODY}:
            return Decision(
                done=False, problem=_("Somebody else has run it meanwhile: look at its last runs.")
            )
        known_task(row.entry.task)  # imports the tasks: a guarded task is sent otherwise than a plain one
        try:
            busy = run_now(
                row.entry,
                by=who(request),
                app=app_or_default(),
                store=store(),
                reason=form.cleaned_data["reason"],
            )
        except ConfigurationError as error:
            return Decision(done=False, problem=str(error))
        if busy is not None:
            return Decision(done=False, problem=_busy(busy))
        return DONE

    def done(self, row: BeatCursor) -> str:
        return _("%(entry)s is sent.") % {"entry": shown(row)}


def _unfinished(row: BeatCursor) -> IdempotencyKey | None:
    from ...beat.asked import unfinished  # noqa: PLC0415  it needs django-celery-beat

    return unfinished(row, alias=alias())


def _busy(key: IdempotencyKey | None) -> str:
    """Which occurrence keeps the entry from running now."""
    if key is None:
        return _("Its last run has just ended: look again.")
    begun = key.started_at or key.created_at
    moment = database_now(store())
    facts = {"at": at(begun), "span": since(begun, moment), "who": holder(key, moment).who}
    if key.state == State.RUNNING:
        return _("It has been running since %(at)s (for %(span)s), by %(who)s.") % facts
    if key.state == State.RETRY:
        return _("Its run of %(at)s failed and will be tried again.") % facts
    return _("It has waited for a worker since %(at)s (for %(span)s).") % facts
