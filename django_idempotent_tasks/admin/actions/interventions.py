"""The actions on one key: release it from its holder, retry it now, or cancel its call."""

from __future__ import annotations

import json
import logging
from typing import Any

from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ...ledger import orphans
from ...models import IdempotencyKey
from ...operations.batch_following import follow_soon
from ...operations.cancel import cancel_key
from ...operations.dead_letters import DONE, Decision, moved_on
from ...operations.selection import NOT_IN_A_COLUMN
from ...operations.sentences import lease, what_next
from ...operations.workers import holder
from ...states import LIVE, State
from ..words.cells import near
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
    is_grave = True
    offer = gettext_lazy("release the key (its holder loses it)")

    def fits(self, row: IdempotencyKey) -> bool:
        return row.state == State.RUNNING

    def unfit(self, row: IdempotencyKey) -> str:
        return _("Nothing to release: the key is %(state)s.") % {"state": state_word(row.state)}

    def question(self, request: HttpRequest, row: IdempotencyKey) -> Question:
        goal = (
            _("The key moves to review, since its call is inside external(): find out what has happened.")
            if row.in_external
            else _("The key can be claimed at once, and the sweeper sends its call again if it is stored.")
        )
        lines = [
            _("The present holder is not stopped, but the ledger refuses its completion from now on."),
            goal,
        ]
        facts = [
            (_("holder"), holder(row, now(request)).text),
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


class RetryNow(RowAction):
    """Makes a waiting RETRY due now; the sweeper sends its message at once."""

    slug = "retry_now"
    label = gettext_lazy("Retry now")
    permissions = ("retry_key",)
    offer = gettext_lazy("retry it now (instead of waiting)")

    def fits(self, row: IdempotencyKey) -> bool:
        return row.state == State.RETRY and row.message is not None

    def unfit(self, row: IdempotencyKey) -> str:
        if row.state == State.RETRY:
            return _("Its message is not stored: only the copy that is on its way can run it.")
        return _("No retry waits: the key is %(state)s.") % {"state": state_word(row.state)}

    def question(self, request: HttpRequest, row: IdempotencyKey) -> Question:
        lines = [
            _("A worker may claim the key at once, and the sweeper sends its message within seconds."),
            _("Attempts stay counted. After the next failure the call waits as long as it would have."),
        ]
        facts = [
            (_("task"), shown(row.task)),
            (_("call"), shown(row.task_id)),
            (_("attempts so far"), str(row.attempts)),
            (_("would be retried"), near(row.open_at, now(request))),
        ]
        title = _("Retry %(key)s now?") % {"key": shown(row)}
        return Question(title, _("Retry it now"), lines, facts)

    def carry_out(self, request: HttpRequest, row: IdempotencyKey, form: ReasonForm) -> Decision:
        if not store().retry_now(row.digest, token=row.token):
            return moved_on(store(), row)
        reason = shown(form.cleaned_data["reason"])
        logger.warning(
            "%s had %s %s retried now, token %d: %s",
            who(request),
            shown(row.task),
            row.digest,
            row.token,
            reason,
        )
        return DONE

    def done(self, row: IdempotencyKey) -> str:  # noqa: ARG002
        return _("It is due now: the sweeper sends its message within seconds.")


class Cancel(RowAction):
    """Ends a live call as CANCELLED; a finished call stays as it is."""

    slug = "cancel"
    label = gettext_lazy("Cancel the call")
    permissions = ("cancel_key",)
    is_grave = True
    offer = gettext_lazy("cancel the call (no worker runs it)")

    def fits(self, row: IdempotencyKey) -> bool:
        return row.state in LIVE

    def unfit(self, row: IdempotencyKey) -> str:
        return _("Nothing to cancel: the key is %(state)s.") % {"state": state_word(row.state)}

    def question(self, request: HttpRequest, row: IdempotencyKey) -> Question:
        lines = [_("No worker runs a copy of this call any more; a new call may claim the key.")]
        if row.state == State.RUNNING:
            lines.append(_("The body that runs is not stopped, but the ledger refuses its completion."))
        facts = [(_("state"), state_word(row.state)), (_("call"), shown(row.task_id))]
        if row.state == State.RUNNING:
            facts.append((_("holder"), holder(row, now(request)).text))
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
            msg = "No row has the task id of this form."
            raise ValueError(msg)
        return row

    def carry_out(self, request: HttpRequest, row: IdempotencyKey, form: ReasonForm) -> Decision:
        if not cancel_key(store(), row):
            return self._not_cancelled(row)
        follow_soon(store(), row.digest)
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
