"""The actions on one key: release it from its holder, or cancel its call."""

from __future__ import annotations

import json
import logging
from typing import Any

from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ...conf import settings
from ...ledger import orphans
from ...models import IdempotencyKey
from ...operations.dead_letters import DONE, Decision, moved_on
from ...operations.selection import NOT_IN_A_COLUMN
from ...operations.sentences import lease, what_next
from ...states import LIVE, State
from ..words.ledger import now, store
from ..words.wording import shown, state_word
from .audit import who
from .question import Question, ReasonForm
from .row import RowAction

logger = logging.getLogger("django_idempotent_tasks")


class Release(RowAction):
    """Moves a key from RUNNING to RETRY, due now; the ledger then refuses the holder's completion."""

    slug = "release"
    label = gettext_lazy("Release the key")
    permissions = ("release_key",)

    def fits(self, row: IdempotencyKey) -> bool:
        return row.state == State.RUNNING

    def unfit(self, row: IdempotencyKey) -> str:
        return _("Nothing to release: the key is %(state)s.") % {"state": state_word(row.state)}

    def question(self, request: HttpRequest, row: IdempotencyKey) -> Question:
        goal = (
            _("The key moves to review, for its call is inside external(): you must find out what happened.")
            if row.in_external
            else _("The key can be claimed at once, and the sweeper sends its call again if it is stored.")
        )
        lines = [
            _("The present holder is not stopped, but the ledger refuses its completion from now on."),
            goal,
        ]
        facts = [
            (_("holder"), shown(row.owner)),
            (_("call"), shown(row.runner_task_id or row.task_id)),
            (_("lease"), lease(row, now(request))),
        ]
        warnings = []
        if row.open_at is not None and row.open_at > now(request):
            warnings.append(_("The holder is alive: it renewed its lease. Its work may then be done twice."))
        title = _("Release %(key)s?") % {"key": shown(row)}
        return Question(title, _("Release it"), lines, facts, warnings, is_grave=True)

    def carry_out(self, request: HttpRequest, row: IdempotencyKey, form: ReasonForm) -> Decision:
        if not orphans.release(store(), row):
            return moved_on(store(), row)
        reason = shown(form.cleaned_data["reason"])
        logger.warning(
            "%s released %s %s, token %d: %s", who(request), shown(row.task), row.digest, row.token, reason
        )
        return DONE

    def done(self, row: IdempotencyKey) -> str:
        row.refresh_from_db()
        return _("Released. %(next)s") % {"next": what_next(row, row.due_at or row.created_at)}


class Cancel(RowAction):
    """Ends a live call as CANCELLED; a finished call stays as it is."""

    slug = "cancel"
    label = gettext_lazy("Cancel the call")
    permissions = ("cancel_key",)

    def fits(self, row: IdempotencyKey) -> bool:
        return row.state in LIVE

    def unfit(self, row: IdempotencyKey) -> str:
        return _("Nothing to cancel: the key is %(state)s.") % {"state": state_word(row.state)}

    def question(self, request: HttpRequest, row: IdempotencyKey) -> Question:  # noqa: ARG002
        lines = [_("No worker runs a copy of this call any more; a new call may claim the key.")]
        if row.state == State.RUNNING:
            lines.append(_("The body that runs is not stopped, but the ledger refuses its completion."))
        facts = [(_("state"), state_word(row.state)), (_("call"), shown(row.task_id))]
        title = _("Cancel %(key)s?") % {"key": shown(row)}
        return Question(title, _("Cancel the call"), lines, facts, is_grave=True)

    def mark(self, row: IdempotencyKey) -> str:
        return json.dumps(row.task_id)  # JSON, because a form would change control characters

    def as_seen(self, row: Any, mark: str) -> Any:
        try:
            row.task_id = json.loads(mark)
        except RecursionError:
            row.task_id = None
        if not isinstance(row.task_id, str) or NOT_IN_A_COLUMN.search(row.task_id):
            msg = "A form has a task id that no row has."
            raise ValueError(msg)
        return row

    def carry_out(self, request: HttpRequest, row: IdempotencyKey, form: ReasonForm) -> Decision:
        window = settings().redelivery_window
        if not store().cancel(row.digest, window=window, task_id=row.task_id):
            return self._not_cancelled(row)
        reason = shown(form.cleaned_data["reason"])
        logger.warning("%s cancelled %s %s: %s", who(request), shown(row.task), row.digest, reason)
        return DONE

    def done(self, row: IdempotencyKey) -> str:  # noqa: ARG002
        return _("Cancelled.")

    def _not_cancelled(self, row: IdempotencyKey) -> Decision:
        current = IdempotencyKey.objects.using(store().connection.alias).filter(digest=row.digest).first()
        if current is not None and current.state in LIVE and current.task_id == row.task_id:
            words = _("A transaction that is ending the call has locked the key: look again.")
            return Decision(done=False, problem=words)
        return moved_on(store(), row)
