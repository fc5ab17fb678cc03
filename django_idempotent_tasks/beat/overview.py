"""Reads the state of beat: who leads, what is overdue or unreadable, and what an ordinary beat sent too."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from django.apps import apps

from ..conf import settings
from ..ledger.moments import exact
from ..ledger.stores import LedgerStore
from ..models import BEAT, BeatCursor, Leader
from .checks import BEAT_APP, beat_problem
from .clock import aware, stored
from .standbys import standing_by

#: How late an entry may be before it counts as overdue; a failover takes less.
LATE = timedelta(minutes=1)
#: How long a finding about an ordinary beat is shown; an ordinary beat that still runs is then logged again.
NEWS = timedelta(days=1)
#: The ``next_due_at`` of a cursor whose entry beat has set aside: a moment that no entry has.
ASIDE = datetime(1971, 1, 1, tzinfo=UTC)
#: How many cursors one query reads.
LOOKED_AT = 200


@dataclass(frozen=True, slots=True)
class Named:
    """A periodic task, and since when it is overdue, unreadable or sent by an ordinary beat."""

    pk: int
    name: str
    moment: datetime


@dataclass(slots=True)
class Overview:
    """The state of beat at one moment. A list that is ``LOOKED_AT`` long may leave some out.

    Unreadable entries come before overdue ones, within one bound for both.
    """

    now: datetime
    leader: Leader | None
    standbys: list[Leader] = field(default_factory=list)
    has_entries: bool = False
    overdue: list[Named] = field(default_factory=list)
    strangers: list[Named] = field(default_factory=list)
    #: Entries that beat cannot read and has set aside.
    unreadable: list[Named] = field(default_factory=list)

    @property
    def is_led(self) -> bool:
        """Whether a beat leads now."""
        return leads(self.leader, self.now)


def leads(leader: Leader | None, now: datetime) -> bool:
    """Whether the lease of a duty, of beat or of the sweeper, holds at ``now``."""
    return leader is not None and exact(leader.expires_at) > exact(now)


def overview(store: LedgerStore, now: datetime) -> Overview | None:
    """The state of beat; None where beat cannot run on this ledger."""
    if beat_problem() is not None or store.connection.alias != settings().database:
        return None
    alias = store.connection.alias
    seen = Overview(now, Leader.objects.using(alias).filter(name=BEAT).first())
    if seen.leader is None:  # no beat of this package has ever led: another scheduler may be at work
        return seen
    seen.standbys = standing_by(alias, now=now)
    seen.has_entries = enabled(alias).exists()
    moment, cursors = exact(now), BeatCursor.objects.using(alias)
    late = cursors.filter(next_due_at__lt=stored(moment - LATE)).order_by("next_due_at")
    found = _named(late.values_list("pk", "next_due_at"), alias)
    seen.overdue = [each for each in found if not is_aside(each.moment)]
    seen.unreadable = [each for each in found if is_aside(each.moment)]
    strange = cursors.filter(stranger_at__gt=stored(moment - NEWS))
    seen.strangers = _named(strange.values_list("pk", "stranger_at"), alias)
    return seen


def is_aside(following: datetime | None) -> bool:
    """Whether a cursor's ``next_due_at`` says that beat has set its entry aside."""
    return following is not None and aware(following) == ASIDE


def entries(alias: str) -> Any:
    """The periodic tasks on the ledger's database, never on a replica."""
    return apps.get_model(BEAT_APP, "PeriodicTask")._default_manager.using(alias)


def enabled(alias: str) -> Any:
    """The enabled periodic tasks."""
    return entries(alias).filter(enabled=True)


def _named(found: Any, alias: str) -> list[Named]:
    """The rows whose periodic task is still enabled: a beat may not have noticed yet that it is not."""
    moments = dict(found[:LOOKED_AT])
    names = dict(enabled(alias).filter(pk__in=moments).values_list("pk", "name")) if moments else {}
    return [Named(pk, names[pk], moment) for pk, moment in moments.items() if pk in names]
