"""The four tiles of the dashboard, and the smaller numbers below."""

from __future__ import annotations

from dataclasses import dataclass

from django.http import HttpRequest
from django.utils.translation import gettext as _

from ...beat.overview import leads
from ...models import IdempotencyKey, Leader
from ...operations.counts import Count, total
from ...operations.status import Status
from ...operations.text import since
from ...operations.workers import leader_words
from ...states import Category, State
from ..words.badges import look_of
from ..words.ledger import alias
from ..words.wording import state_word
from .needs import list_of
from .recent import Recent


@dataclass(frozen=True, slots=True)
class Tile:
    """One number with its label, perhaps with a link; ``look`` is the colour of a badge."""

    label: str
    value: str
    url: str = ""
    look: str = ""
    note: str = ""


def tiles(request: HttpRequest, seen: Status, recent: Recent) -> list[Tile]:
    """Running, waiting, dead, done this hour."""
    waiting = total(seen.count(State.PENDING), seen.count(State.RETRY))
    failed, review = seen.count(State.FAILED, "kept"), seen.count(State.REVIEW, "kept")
    dead = total(failed, review)
    oldest = seen.states[State.PENDING]["oldest"]
    words = {
        "first": "" if oldest is None else _("the first for %(span)s") % {"span": since(oldest, seen.now)},
        "review": _("%(count)s in review") % {"count": review} if review.number else "",
    }
    keys = {state: list_of(request, "idempotencykey", {"state": int(state)}) for state in State}
    done = recent.done_this_hour()
    return [
        Tile(_("running"), str(seen.count(State.RUNNING)), keys[State.RUNNING], "runs"),
        Tile(_("waiting"), str(waiting), keys[State.PENDING], "waits", words["first"]),
        Tile(
            _("dead letters"),
            str(dead),
            list_of(request, "deadletter", {}),
            "bad" if dead.number else "quiet",
            words["review"],
        ),
        Tile(_("done this hour"), str(done), keys[State.SUCCEEDED], "good"),
    ]


def numbers(request: HttpRequest, seen: Status) -> list[Tile]:
    """The keys of each state, and who leads."""
    states = [tile for state in State for tile in _of_state(request, seen, state)]
    return [
        *states,
        Tile(_("relay lag: how long due messages wait to be sent"), _lag(seen)),
        Tile(_("sweeper"), _leads(seen.leader, seen)),
        *_beat(request, seen),
    ]


def _of_state(request: HttpRequest, seen: Status, state: State) -> list[Tile]:
    """One number for a state; for FAILED three, because discarded keys wait for nobody."""
    every = seen.count(state)
    if state is not State.FAILED:
        url = list_of(request, "idempotencykey", {"state": int(state)})
        return [Tile(state_word(state), str(every), url, look_of(state))]
    kept, expected = seen.count(state, "kept"), seen.count(state, "expected")
    discarded = Count(max(every.number - kept.number - expected.number, 0), every.is_bound)
    found = [
        (_("failed, to be decided"), kept, {"state": int(state)}, "bad"),
        (_("ended as expected"), expected, {"category": int(Category.EXPECTED)}, "quiet"),
        (_("failed and discarded"), discarded, {"discarded": 1}, "quiet"),
    ]
    return [
        Tile(label, str(number), list_of(request, "deadletter", query), look)
        for label, number, query, look in found
    ]


def _beat(request: HttpRequest, seen: Status) -> list[Tile]:
    """The line that leads to the periodic runs; none without beat."""
    if seen.beat is None:
        return []
    url = list_of(request, "beatcursor", {})
    return [Tile(_("beat, with its periodic runs"), _leads(seen.beat.leader, seen), url)]


def _leads(leader: Leader | None, seen: Status) -> str:
    if leader is None or not leads(leader, seen.now):
        return _("no leader")
    words = _("%(who)s leads for %(span)s")
    return words % {"who": leader_words(leader.holder), "span": since(leader.since, seen.now)}


def _lag(seen: Status) -> str:
    """How long the key that was due first has waited to be sent."""
    keys = IdempotencyKey.objects.using(alias())
    due = [
        keys.filter(state=state, due_at__lte=seen.now)
        .order_by("due_at")
        .values_list("due_at", flat=True)
        .first()
        for state in (State.PENDING, State.RETRY)
    ]
    first = min(filter(None, due), default=None)
    return _("none") if first is None else since(first, seen.now)
