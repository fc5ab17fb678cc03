"""What people want to know of beat at a glance: who leads, what is overdue, and whether a stranger sends."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.apps import apps

from ..beat_checks import BEAT, beat_problem
from ..conf import settings
from ..models import BeatCursor, Leader
from ..stores import LedgerStore
from .duty import DUTY
from .standbys import standing_by

#: Later than that is overdue; a failover takes less.
LATE = timedelta(minutes=1)
#: How long a stranger is spoken of after it was noticed; then it is logged again.
NEWS = timedelta(days=1)
#: Cursors that one look reads.
LOOKED_AT = 200


@dataclass(frozen=True, slots=True)
class Named:
    """A periodic task, and since when something is so."""

    pk: int
    name: str
    moment: datetime


@dataclass(slots=True)
class Overview:
    """One look. The lists are bounded: there may be more where one is ``LOOKED_AT`` long."""

    now: datetime
    leader: Leader | None
    standbys: list[Leader] = field(default_factory=list)
    has_entries: bool = False
    overdue: list[Named] = field(default_factory=list)
    strangers: list[Named] = field(default_factory=list)

    @property
    def is_led(self) -> bool:
        """Whether a beat leads now."""
        return self.leader is not None and self.leader.expires_at > self.now


def overview(store: LedgerStore, now: datetime) -> Overview | None:
    """The numbers; None where beat cannot run on this ledger, so that there is nothing to look at."""
    if beat_problem() is not None or store.connection.alias != settings().database:
        return None
    alias = store.connection.alias
    seen = Overview(now, Leader.objects.using(alias).filter(name=DUTY).first())
    if seen.leader is None:  # no beat of ours has ever led: another scheduler may be at work
        return seen
    seen.standbys = standing_by(alias, now=now)
    seen.has_entries = enabled(alias).exists()
    cursors = BeatCursor.objects.using(alias)
    late = cursors.filter(next_due_at__lt=now - LATE).order_by("next_due_at")
    seen.overdue = _named(late.values_list("pk", "next_due_at"), alias)
    strange = cursors.filter(stranger_at__gt=now - NEWS)
    seen.strangers = _named(strange.values_list("pk", "stranger_at"), alias)
    return seen


def entries(alias: str) -> Any:
    """The periodic tasks on the ledger's database; no replica is asked."""
    return apps.get_model(BEAT, "PeriodicTask")._default_manager.using(alias)


def enabled(alias: str) -> Any:
    """Those that are enabled."""
    return entries(alias).filter(enabled=True)


def _named(found: Any, alias: str) -> list[Named]:
    """Those that are enabled still, which no beat may have seen."""
    moments = dict(found[:LOOKED_AT])
    names = dict(enabled(alias).filter(pk__in=moments).values_list("pk", "name")) if moments else {}
    return [Named(pk, names[pk], moment) for pk, moment in moments.items() if pk in names]
