"""Says in words when a periodic task runs, what comes next, and how its last occurrences ended."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from django.http import HttpRequest
from django.urls import reverse
from django.utils.translation import gettext as _

from ...beat.clock import aware
from ...beat.overview import LATE, NEWS, is_aside
from ...beat.recent import KEPT, Past, decode
from ...ledger.moments import exact
from ...models import DEAD, BeatCursor, IdempotencyKey
from ...operations.text import since, span
from ...states import Reason, State
from ..permissions import has
from .badges import QUIET, badge, look_of
from .cells import near
from .ledger import alias, now
from .wording import at, cell, reason_word, state_word


class Occurrences:
    """The last occurrences of some periodic tasks, with the states of their keys (one query for all)."""

    def __init__(self, request: HttpRequest, rows: Sequence[BeatCursor], *, number: int = KEPT) -> None:
        self._now = now(request)
        self._links = has(request, "view_idempotencykey")
        self._past = {row.pk: decode(row.recent)[:number] for row in rows}
        digests = [each.digest for past in self._past.values() for each in past]
        keys = IdempotencyKey.objects.using(alias()).filter(digest__in=digests)
        found = keys.values_list("digest", "state", "reason")
        self._keys: dict[UUID, tuple[int, int]] = {digest: (state, reason) for digest, state, reason in found}

    def of(self, row: BeatCursor) -> list[dict[str, Any]]:
        """The occurrences of one cursor, the latest first."""
        return [self._line(past) for past in self._past[row.pk]]

    def _line(self, past: Past) -> dict[str, Any]:
        end = self._keys.get(past.digest)
        url = reverse("admin:django_idempotent_tasks_idempotencykey_change", args=[past.digest])
        return {
            "when": near(past.due, self._now),
            "by": _("asked for by %(who)s") % {"who": cell(past.by)} if past.by else "",
            "outcome": badge(_("pruned"), QUIET) if end is None else badge(outcome(*end), look_of(end[0])),
            "is_failure": end is not None and end[0] in DEAD,
            "url": url if end is not None and self._links else "",
        }


def outcome(state: int, reason: int) -> str:
    """How an occurrence ended. Of a plain task it is known only that its message was sent."""
    return reason_word(reason) if (state, reason) == (State.SUCCEEDED, Reason.SENT) else state_word(state)


def schedule_words(task: Any) -> str:
    """When the task runs, in django-celery-beat's words."""
    try:
        words, is_clocked = _words(task), task.clocked is not None
    except Exception:  # noqa: BLE001  the columns of a schedule may hold anything
        return _("unreadable")
    return _("%(schedule)s, once") % {"schedule": words} if task.one_off and not is_clocked else words


def _words(task: Any) -> str:
    if task.crontab is not None:
        return _crontab_words(task.crontab)
    return str(task.interval or task.solar or task.clocked or "-")


def _crontab_words(crontab: Any) -> str:
    """The crontab in words; its five fields where it has none, as one that was saved without the form."""
    try:
        return str(crontab.human_readable)
    except Exception:  # noqa: BLE001  whatever the parsers of two libraries raise
        return str(crontab)


def next_words(row: BeatCursor, now: datetime, *, is_enabled: bool) -> str:
    """When the next occurrence is due, and how late it is."""
    if not is_enabled:
        return "-"
    if is_aside(row.next_due_at):
        return _("none: beat cannot read the entry")
    if not row.schedule:
        return _("known when a beat has read the entry")
    if row.next_due_at is None:
        return _("none")
    left = (aware(row.next_due_at) - exact(now)).total_seconds()
    words = _("in %(span)s") if left >= 0 else _("due for %(span)s")
    if left < -LATE.total_seconds():
        words = _("overdue for %(span)s")
    return f"{at(row.next_due_at)} ({words % {'span': span(abs(left))}})"


def passed_over_words(row: BeatCursor, now: datetime) -> str:
    """How many times beat passed over, and when it last did; empty without any."""
    if not row.passed_over or row.passed_over_at is None:
        return ""
    words = _("%(number)s, the last %(span)s ago")
    return words % {"number": f"{row.passed_over:,}", "span": since(aware(row.passed_over_at), exact(now))}


def stranger_words(row: BeatCursor, now: datetime) -> str:
    """A warning if an ordinary beat has sent the task as well; else empty."""
    if row.stranger_at is None or aware(row.stranger_at) < exact(now) - NEWS:
        return ""
    words = _("an ordinary beat sent it as well, %(span)s ago: stop that beat")
    return words % {"span": since(aware(row.stranger_at), exact(now))}
