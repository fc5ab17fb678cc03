"""What needs a person, and what people have paused: in words, with a colour and a link."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlencode

from django.http import HttpRequest
from django.urls import reverse
from django.utils.translation import gettext as _

from ...models import BatchState
from ...operations.findings import Finding, findings
from ...operations.pauses import Shown
from ...operations.status import Status
from ...operations.text import span
from ...states import State
from ..permissions import has
from ..words.badges import BAD, ODD, RUNS, WAITS
from ..words.wording import cell, shown

#: Which list shows what a finding is about; a finding without one is no link.
_LISTS: dict[str, tuple[str, dict[str, int]]] = {
    "expired_leases": ("idempotencykey", {"state": int(State.RUNNING)}),
    "pending_overdue": ("idempotencykey", {"state": int(State.PENDING)}),
    "retry_overdue": ("idempotencykey", {"state": int(State.RETRY)}),
    "no_worker": ("idempotencykey", {"state": int(State.PENDING)}),
    "queue_not_consumed": ("idempotencykey", {"state": int(State.PENDING)}),
    "task_not_known": ("idempotencykey", {"state": int(State.PENDING)}),
    "identity_refused": ("duplicateattempt", {}),
    "prune_behind": ("idempotencykey", {"state": int(State.SUCCEEDED)}),
    "failed": ("deadletter", {"state": int(State.FAILED)}),
    "review": ("deadletter", {"state": int(State.REVIEW)}),
    "batches_attention": ("batch", {"state": int(BatchState.NEEDS_ATTENTION)}),
    "batches_unsealed": ("batch", {"state": int(BatchState.SUBMITTING)}),
    "beat_no_leader": ("beatcursor", {}),
    "beat_overdue": ("beatcursor", {}),
    "beat_unreadable": ("beatcursor", {}),
    "beat_stranger": ("beatcursor", {}),
}
#: Work stands still: these are told in the colour of a failure. The others can wait for the morning.
_STOPPED = frozenset(
    {
        "no_leader", "sweeper_idle", "no_worker", "queue_not_consumed", "task_not_known", "expired_leases",
        "beat_no_leader",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Line:
    """One thing, with the look of its badge and the word in it."""

    look: str
    word: str
    text: str
    url: str = ""


def needs(request: HttpRequest, seen: Status) -> list[Line]:
    """What needs a person, worst first."""
    return [_need(request, each) for each in findings(seen)]


def paused(request: HttpRequest, seen: Status) -> list[Line]:
    """What is paused, or being sent after a pause, which needs nobody."""
    return [_pause(request, each, seen) for each in seen.pauses]


def list_of(request: HttpRequest, model: str, query: dict[str, int]) -> str:
    """The address of a list; empty for people who may not see it."""
    if not has(request, f"view_{model}"):
        return ""
    url = reverse(f"admin:django_idempotent_tasks_{model}_changelist")
    return f"{url}?{urlencode(query)}" if query else url


def _need(request: HttpRequest, each: Finding) -> Line:
    model, query = _LISTS.get(each.name, ("", {}))
    is_stopped = each.name in _STOPPED
    word = _("stands still") if is_stopped else _("to decide")
    if not is_stopped and model != "deadletter" and each.name != "batches_attention":
        word = _("look")
    url = list_of(request, model, query) if model else ""
    return Line(BAD if is_stopped else ODD, word, each.sentence, url)


def _pause(request: HttpRequest, each: Shown, seen: Status) -> Line:
    row, url = each.row, list_of(request, "pause", {})
    facts = {"task": shown(row), "by": cell(row.paused_by), "why": cell(row.reason), "held": each.held}
    if each.is_active:
        facts["left"] = span((row.until - seen.now).total_seconds())
        words = _("%(task)s for %(left)s more, by %(by)s: %(why)s (%(held)s calls wait)")
        return Line(WAITS, _("paused"), words % facts, url)
    facts["rate"] = row.rate
    words = _("%(task)s: the pause is over, %(held)s calls wait to be sent, %(rate)s a second")
    return Line(RUNS, _("being sent"), words % facts, url)
