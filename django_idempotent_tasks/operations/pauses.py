"""Pauses tasks and resumes them; says which are paused, until when and why, and how many calls wait."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Q, QuerySet
from django.utils.translation import gettext as _

from ..exceptions import ConfigurationError
from ..identity.text import harmless
from ..ledger import pauses
from ..ledger.moments import database_now, shifted
from ..ledger.paused import Paused
from ..ledger.pauses import LONGEST
from ..ledger.stores import LedgerStore
from ..models import IdempotencyKey, Pause
from ..states import State
from .counts import CAP, Count, capped

logger = logging.getLogger("django_idempotent_tasks")

#: How long a pause lasts that nobody ends, where nobody says how long.
USUAL = timedelta(hours=1)
#: Calls a second that are sent after a pause: the usual rate, and the highest.
RATE, FASTEST = 20, 1000
#: Pauses that one look reads: not more than a person would.
SHOWN = 50


@dataclass(frozen=True, slots=True)
class Shown:
    """A pause for people, with how many calls wait in the ledger for its end."""

    row: Pause
    held: Count
    is_active: bool

    def facts(self) -> dict[str, object]:
        """For JSON."""
        row = self.row
        return {
            "task": row.task,
            "scope": row.scope or None,
            "state": "paused" if self.is_active else "ending",
            "reason": row.reason,
            "paused_by": row.paused_by,
            "since": row.since,
            "until": row.until,
            "rate": row.rate,
            "resumed_at": row.resumed_at,
            "resumed_by": row.resumed_by,
            "waiting": self.held.facts(),
        }


def pause(
    store: LedgerStore,
    task: str,
    *,
    by: str,
    reason: str,
    scope: str = "",
    lasts: timedelta = USUAL,
    rate: int = RATE,
) -> Pause:
    """Pause a task, for calls of one scope or of all; a task that is paused stays so for longer, or shorter.

    Workers and senders know of it within seconds. Raises :class:`ConfigurationError` without a task or a
    reason, for a pause of more than 7 days, and for a rate that is not 1 to 1,000 calls a second.
    """
    _check(task, reason, lasts, rate)
    alias, now = store.connection.alias, database_now(store)
    until = shifted(now, lasts)
    given = {"reason": reason.strip()[:500], "paused_by": by[:150], "rate": rate}
    row = _in_force(alias, now).filter(task=task, scope=scope).order_by("id").first()
    if row is None:
        made = {"since": now, "until": until, "held_at": shifted(now, pauses.held_for())}
        row = Pause(task=task, scope=scope, **given, **made)
        row.save(using=alias, force_insert=True)
    else:
        row.until = min(until, shifted(row.since, LONGEST))
        for name, value in given.items():
            setattr(row, name, value)
        row.save(using=alias, update_fields=["until", *given])
    pauses.forget()
    logger.warning("%s pauses %s until %s: %s", harmless(by), harmless(str(row)), row.until, harmless(reason))
    return row


def resume(store: LedgerStore, row: Pause, *, by: str, rate: int | None = None) -> bool:
    """End a pause now: what waits is sent at ``rate`` calls a second. False where it was over already."""
    if rate is not None and not 1 <= rate <= FASTEST:
        raise ConfigurationError(_wrong_rate(rate))
    alias, now = store.connection.alias, database_now(store)
    given = {"resumed_at": now, "resumed_by": by[:150], "rate": row.rate if rate is None else rate}
    done = _in_force(alias, now).filter(pk=row.pk).update(**given) == 1
    if done:
        pauses.forget()
        logger.warning("%s resumes %s at %d calls a second", harmless(by), harmless(str(row)), given["rate"])
    return done


def active(alias: str, now: datetime) -> list[Pause]:
    """The pauses that are in force, the oldest first."""
    return list(_in_force(alias, now).order_by("id")[:SHOWN])


def shown(store: LedgerStore, now: datetime) -> list[Shown]:
    """The pauses that are in force, then those that are over and whose calls are being sent."""
    found = Pause.objects.using(store.connection.alias).filter(drained_at__isnull=True)
    rows = [
        Shown(row, held(store, row), row.resumed_at is None and row.until > now)
        for row in found.order_by("id")[:SHOWN]
    ]
    return sorted(rows, key=lambda each: not each.is_active)


def held(store: LedgerStore, row: Pause) -> Count:
    """How many calls wait for the end of this pause."""
    return capped(store.count_held(Paused(row.pk, row.task, row.scope, row.rate), bite=CAP + 1))


def find(store: LedgerStore, task: str, scope: str) -> Pause | None:
    """The pause of this task and scope that is in force."""
    found = _in_force(store.connection.alias, database_now(store)).filter(task=task, scope=scope)
    return found.order_by("id").first()


def why_it_waits(row: IdempotencyKey, now: datetime) -> str:
    """Why a key's call waits, where its task is paused; else nothing."""
    if row.state not in {State.PENDING, State.RETRY}:
        return ""
    mine = Q(scope="") | Q(scope=row.scope or "")
    found = _in_force(row._state.db or "default", now).filter(mine, task=row.task).first()  # noqa: SLF001
    if found is None:
        return ""
    words = _("%(by)s has paused the task until %(until)s: %(why)s. The call waits in the ledger until then.")
    return words % {
        "by": harmless(found.paused_by),
        "until": f"{found.until:%Y-%m-%d %H:%M}",
        "why": harmless(found.reason),
    }


def _in_force(alias: str, now: datetime) -> QuerySet[Pause]:
    return Pause.objects.using(alias).filter(drained_at=None, resumed_at=None, until__gt=now)


def _check(task: str, reason: str, lasts: timedelta, rate: int) -> None:
    if not task.strip() or not reason.strip():
        raise ConfigurationError("A pause needs the task's full name, and a reason, which people see.")
    if not timedelta(seconds=1) <= lasts <= LONGEST:
        raise ConfigurationError(f"A pause lasts from 1 second to 7 days, not {lasts}: pause it again then.")
    if not 1 <= rate <= FASTEST:
        raise ConfigurationError(_wrong_rate(rate))


def _wrong_rate(rate: int) -> str:
    return f"The rate must be 1 to {FASTEST:,} calls a second, not {rate}."
