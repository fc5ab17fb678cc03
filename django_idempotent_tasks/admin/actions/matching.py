"""Turns the filters of a list into a selection of dead letters that can be stored and carried out."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from typing import Any

from django.http import HttpRequest
from django.utils.translation import gettext as _

from ...models import DEAD, FailedJob
from ...operations import dead_letters
from ...operations.selection import NOT_IN_A_COLUMN, Selection
from ...states import EXPECTED_FROM, Category, State
from ..lists.filters import AGES, age_of
from ..lists.waiting import searched, selected
from ..lists.window import number
from ..permissions import has
from ..words.ledger import alias, now
from ..words.wording import shown

#: How many dead letters one count reads.
BOUND = 100_000
#: How many dead letters are told apart by task and error, and how many kinds a question names.
COUNTED, KINDS = 1000, 5
#: How many dead letters are checked for reasons to fail again.
SAMPLE = 20


def is_of_discarded(request: HttpRequest) -> bool:
    """Whether the list shows discarded dead letters."""
    return request.GET.get("discarded") == "1"


def is_of_expected(request: HttpRequest) -> bool:
    """Whether the list shows expected ends: by their category, or by a signature of theirs."""
    given = request.GET
    return given.get("category") == str(Category.EXPECTED.value) or given.get("signature", "").startswith(
        EXPECTED_FROM
    )


def selection_of(request: HttpRequest) -> Selection:
    """What the list shows with these filters and has ended by now. Raises ValueError for a wrong value."""
    given, moment = request.GET, now(request)
    if is_of_discarded(request):
        msg = "Discarded dead letters are decided one by one."
        raise ValueError(msg)
    texts = {name: given.get(name) or None for name in ("task", "scope", "signature")}
    if any(NOT_IN_A_COLUMN.search(text) for text in texts.values() if text):
        msg = "A filter has a text that no column can hold."
        raise ValueError(msg)
    ended = given.get("ended", "")
    if ended and ended not in AGES:
        msg = "A filter has a time that is not a choice."
        raise ValueError(msg)
    after, before = age_of(ended, moment)
    return Selection(
        **texts,
        category=_chosen(given.get("category"), tuple(Category)),
        state=_chosen(given.get("state"), DEAD),
        ended_after=after,
        ended_before=before or moment,
        digests=_searched(request),
    )


def _chosen(text: str | None, among: tuple[int, ...]) -> int | None:
    if not text:
        return None
    number = int(text) if re.fullmatch("[0-9]", text) else None  # int() reads digits of every script
    if number not in among:
        msg = "A filter has a number that is not a choice."
        raise ValueError(msg)
    return number


def _searched(request: HttpRequest) -> tuple[Any, ...] | None:
    term = request.GET.get("q", "")
    if not term.strip():
        return None
    return tuple(searched(request, term))


def allowed(request: HttpRequest, selection: Selection, permission: str) -> Selection | None:
    """The part that this person may decide about (REVIEW needs ``resolve_review``); None without any."""
    may = {State.FAILED: has(request, permission), State.REVIEW: has(request, "resolve_review")}
    states = [state for state in may if may[state] and selection.state in {None, state}]
    if not states:
        return None
    return selection if len(states) > 1 else replace(selection, state=states[0])


def count(selection: Selection) -> tuple[int, bool]:
    """How many match now, and whether more match than were counted."""
    found = number(selected(selection), BOUND + 1)
    return min(found, BOUND), found > BOUND


def told(selection: Selection) -> str:
    """The most frequent tasks and errors among the first ``COUNTED`` that match, with their counts."""
    rows = list(selected(selection).values_list("task", "signature")[: COUNTED + 1])
    counts = Counter(rows[:COUNTED])
    lines = [
        f"{number:,} × {shown(task)}: {shown(_error_of(signature))}"
        for (task, signature), number in counts.most_common(KINDS)
    ]
    more = [_("and others")] if len(counts) > KINDS or len(rows) > COUNTED else []
    return "; ".join([*lines, *more])


def _error_of(signature: str | None) -> str:
    """The class of the last error of a signature; the signature where that was pruned."""
    jobs = FailedJob.objects.using(alias()).filter(signature=signature).order_by("-at")
    return str(next(iter(jobs.values_list("error", flat=True)[:1]), signature))


def problems(selection: Selection) -> list[str]:
    """How many of the first ones cannot be sent, then each reason why others would fail again."""
    rows = list(selection.query(alias())[:SAMPLE])
    lost = [row for row in rows if dead_letters.redrive_message(row) is None]
    left = [row for row in rows if row not in lost]
    known = {f"{shown(row.task)}: {shown(why)}" for row in left if (why := dead_letters.known_problem(row))}
    known |= {f"{shown(row.task)}: {dead_letters.why_unsendable(row)}" for row in lost}
    words = _("Of the first %(looked)s, %(lost)s cannot be sent and are skipped.")
    said = [words % {"looked": len(rows), "lost": len(lost)}] if lost else []
    return said + sorted(known)
