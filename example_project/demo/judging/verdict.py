"""Judges a run: compares what was accepted with what happened. Pure, so that tests show that it can fail."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

#: A payment: the tenant's slug and the payment's id.
Payment = tuple[str, str]

#: From first to last; what comes later wins, in whichever order the events arrive.
STATUSES = ("pending", "failed", "completed", "refunded")

#: How many workers one event may end: ``max_crashes``, which the project leaves at its default.
DEATHS = 3


@dataclass(frozen=True, slots=True)
class Accepted:
    """An event that the webhook answered with 202; ``by_hand`` is one that a person has settled."""

    event_id: str
    payment: Payment
    status: str
    declined: bool = False
    poison: bool = False
    by_hand: bool = False

    @property
    def chargeable(self) -> bool:
        """Whether money must be moved for it."""
        return self.status == "completed" and not (self.declined or self.poison or self.by_hand)

    @property
    def final_state(self) -> str:
        """The state that its key must end in."""
        if self.poison:
            return "FAILED (poison)"
        return "FAILED (expected)" if self.declined else "SUCCEEDED"


@dataclass(frozen=True, slots=True)
class Observed:
    """What is found afterwards. The lists hold one entry for each row, so a doubled effect is there twice.

    ``deaths`` is the ledger's count for each event, ``calls`` the gateway's for each payment.
    """

    key_states: Mapping[str, str]
    deaths: Mapping[str, int]
    calls: Mapping[Payment, int]
    booked: Iterable[Payment]
    moved: Iterable[Payment]
    notified: Iterable[Payment]
    statuses: Mapping[Payment, str]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Each tuple names what is wrong; all are empty after a run that kept its promise."""

    lost: tuple[str, ...]
    doubled: tuple[str, ...]
    unexpected: tuple[str, ...]
    stale: tuple[str, ...]
    unbounded: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Whether nothing is wrong."""
        return not (self.lost or self.doubled or self.unexpected or self.stale or self.unbounded)


def verdict(accepted: Collection[Accepted], observed: Observed) -> Verdict:
    """Say what was lost, happened twice or unasked, shows an old status, or ended workers without bound."""
    events = [event for event in accepted if not event.poison]
    poison = [event for event in accepted if event.poison]
    due = {event.payment for event in events if event.chargeable}
    lost = list(_unfinished(events, observed.key_states))
    doubled, unexpected = [], []
    for effect in ("booked", "moved", "notified"):
        found = Counter(getattr(observed, effect))
        lost += [f"{_name(payment)} was not {effect}" for payment in sorted(due - found.keys())]
        doubled += [
            f"{_name(payment)} was {effect} {times} times" for payment, times in found.items() if times > 1
        ]
        unexpected += [f"{_name(payment)} was {effect} unasked" for payment in sorted(found.keys() - due)]
    stale = tuple(_stale(events, observed.statuses))
    unbounded = tuple(_unbounded(poison, observed))
    return Verdict(tuple(lost), tuple(doubled), tuple(unexpected), stale, unbounded)


def _unfinished(events: Iterable[Accepted], key_states: Mapping[str, str]) -> Iterator[str]:
    for event in events:
        state = key_states.get(event.event_id, "without a key")
        if state != event.final_state:
            yield f"{event.event_id} is {state}, not {event.final_state}"


def _unbounded(poison: Iterable[Accepted], observed: Observed) -> Iterator[str]:
    for event in poison:
        deaths, starts = observed.deaths.get(event.event_id, 0), observed.calls.get(event.payment, 0)
        yield from _unfinished([event], observed.key_states)
        if deaths != DEATHS:
            yield f"{event.event_id} ended {deaths} workers, not {DEATHS}"
        if starts != DEATHS:
            yield f"{event.event_id} was started {starts} times, not {DEATHS}"


def _stale(events: Iterable[Accepted], statuses: Mapping[Payment, str]) -> Iterator[str]:
    furthest: dict[Payment, str] = {}
    for event in events:
        if not (event.declined or event.by_hand):
            known = furthest.get(event.payment, event.status)
            furthest[event.payment] = max(known, event.status, key=STATUSES.index)
    for payment, status in sorted(furthest.items()):
        if statuses.get(payment) != status:
            yield f"{_name(payment)} is {statuses.get(payment)}, not {status}"


def _name(payment: Payment) -> str:
    return "/".join(payment)
