"""Says on a key's page that a later call waits for the end of the present one."""

from __future__ import annotations

from django.utils.translation import gettext as _

from ...ledger.rows import follow_up_of
from ...models import IdempotencyKey
from ...states import State
from .wording import at, shown


def follow_up(row: IdempotencyKey) -> str:
    """The call that waits, and since when; empty where none does. None follows what has not begun."""
    waiting = None if row.state == State.PENDING else follow_up_of(row)
    if waiting is None:
        return ""
    words = _("a follow-up has waited since %(since)s: call %(call)s")
    return words % {"since": at(waiting.created_at), "call": shown(waiting.task_id)}
