"""Counts refused duplicates by scope: which tenants send the same call again, and when."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.db.models import Count, Max, Min, Q, QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.translation import gettext as _

from ..ledger.rules import COMPLETED, FAILED, IN_PROGRESS, IN_REVIEW, SHADOW
from ..models import DuplicateAttempt
from ..operations.search import WINDOW
from .lists.filters import AGES, age_of
from .words.ledger import alias, now
from .words.wording import ago, cell

#: How many scopes are listed, those with the most refused calls first.
SHOWN = 100

_SINCE = ("1h", "24h", "7d")
_REASONS = (IN_PROGRESS, COMPLETED, FAILED, IN_REVIEW)


@dataclass(frozen=True, slots=True)
class Line:
    """The numbers of one scope."""

    scope: str
    url: str
    total: int
    #: By reason, in the order of the columns.
    numbers: list[int]
    last: str


def refusals(request: HttpRequest) -> dict[str, Any]:
    """The context of the page. Reads only the newest rows, by the primary key."""
    moment = now(request)
    since = request.GET.get("since", "")
    rows = _looked_at(since, moment)
    # One group more than is shown tells whether there are more.
    found = list(_by_scope(rows)[: SHOWN + 1])
    oldest = rows.aggregate(oldest=Min("at"))["oldest"]
    return {
        "title": _("Refused calls by scope"),
        "lines": [_line(group, moment) for group in found[:SHOWN]],
        "has_more": len(found) > SHOWN,
        "shown": SHOWN,
        "window": f"{WINDOW:,}",
        "oldest": ago(oldest, moment),
        "columns": [
            _("while it ran or waited"),
            _("after it was done"),
            _("after it had failed"),
            _("in review"),
        ],
        "choices": [_choice(name, since) for name in ("", *_SINCE)],
    }


def _looked_at(since: str, moment: datetime) -> QuerySet[DuplicateAttempt]:
    rows = DuplicateAttempt.objects.using(alias()).exclude(place=SHADOW)
    newest = rows.aggregate(newest=Max("id"))["newest"] or 0
    after, _before = age_of(since if since in _SINCE else "", moment)
    rows = rows.filter(id__gt=newest - WINDOW)
    return rows if after is None else rows.filter(at__gte=after)


def _by_scope(rows: QuerySet[DuplicateAttempt]) -> Any:
    numbers = {name: Count("id", filter=Q(reason=name)) for name in _REASONS}
    grouped = rows.order_by().values("scope").annotate(total=Count("id"), last=Max("at"), **numbers)
    return grouped.order_by("-total", "scope")


def _line(group: dict[str, Any], moment: datetime) -> Line:
    scope = group["scope"]
    url = ""
    if scope:  # the list's filter cannot ask for an empty scope
        changelist = reverse("admin:django_idempotent_tasks_duplicateattempt_changelist")
        url = f"{changelist}?{urlencode({'scope': scope})}"
    numbers = [group[name] for name in _REASONS]
    return Line(cell(scope), url, group["total"], numbers, ago(group["last"], moment))


def _choice(name: str, chosen: str) -> dict[str, Any]:
    words = AGES[name][1] if name else _("all of them")
    return {"query": urlencode({"since": name}), "words": words, "is_chosen": name == chosen}
