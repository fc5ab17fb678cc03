"""``idem beat`` runs celery beat with our scheduler; ``idem health beat`` checks whether one leads."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from ...beat.duty import LEASE
from ...beat.overview import leads, overview
from ...identity.text import harmless
from ...ledger.moments import database_now, exact
from ...ledger.stores import LedgerStore
from ...models import BEAT, Leader
from ...operations.text import span
from ...operations.workers import leader_words
from ..cli.project import project_app
from ..cli.report import FINDINGS, FINE, Options, Report, Say
from .pauses import in_force
from .run_now import require_beat

SCHEDULER = "django_idempotent_tasks.schedulers:SingleInstanceDatabaseScheduler"
#: How many names are listed.
LISTED = 20


def run_beat(store: LedgerStore, options: Options, _say: Say) -> Report:
    """Run beat until SIGTERM. Any number may run; one of them leads."""
    require_beat(store)
    beat = project_app().Beat(
        scheduler_cls=SCHEDULER,
        loglevel=options["loglevel"],
        remote_control=options["enable_remote_control"] or None,
        quiet=options["format"] == "json",
    )
    beat.run()
    return Report({"outcome": "ended"}, ["Beat has ended; another one may lead now."])


def beat_health(store: LedgerStore, options: Options, _say: Say) -> Report:
    """Report whether a beat leads, when it ticked last, what is overdue, and what beat cannot read."""
    require_beat(store)
    late: timedelta = options["max_age"]
    now = database_now(store)
    leader = Leader.objects.using(store.connection.alias).filter(name=BEAT).first()
    is_led = leads(leader, now)
    age = None if leader is None else max((exact(now) - exact(leader.expires_at)).total_seconds() + LEASE, 0)
    waiting, aside = ([], []) if options["leader_only"] else _entries(store, now, late)
    seen = None if options["leader_only"] else overview(store, now)
    strangers = [each.name for each in seen.strangers] if seen else []
    words = [
        f"{each.name} (since {each.due:%Y-%m-%d %H:%M:%S} UTC)" if each.due else f"{each.name} (new)"
        for each in waiting
    ]
    facts: dict[str, Any] = {
        "leader": leader.holder if leader is not None and is_led else None,
        "last_tick_seconds": age,
        "overdue": len(waiting),
        "overdue_names": [each.name for each in waiting[:LISTED]],
        "unreadable": {each.name: each.problem for each in aside[:LISTED]},
        "also_sent_by_another_beat": strangers[:LISTED],
    }
    lines = [_leader_line(facts, age)]
    if waiting:
        lines.append(f"{len(waiting)} overdue: {harmless(', '.join(words[:LISTED]))}")
    if aside:
        names = harmless(", ".join(each.name for each in aside[:LISTED]))
        lines.append(f"Beat cannot read {len(aside)}, and goes on with the others: {names}")
        lines.extend(f"- {harmless(each.name)}: {each.problem}" for each in aside[:LISTED])
    if strangers:
        names = harmless(", ".join(strangers[:LISTED]))
        lines.append(f"An ordinary beat also sent {len(strangers)}; stop that beat: {names}")
    is_fine = is_led and not (waiting or aside or strangers)
    return in_force(store, Report(facts, lines, FINE if is_fine else FINDINGS))


def _entries(store: LedgerStore, now: datetime, late: timedelta) -> Any:
    from ...beat.overdue import overdue  # noqa: PLC0415  it needs django-celery-beat

    return overdue(project_app(), store, now=exact(now), late=late)


def _leader_line(facts: dict[str, Any], age: float | None) -> str:
    if facts["leader"]:
        return f"{leader_words(facts['leader'])} leads beat; it ticked {span(age or 0)} ago."
    if age is None:
        return "No beat has ever led: start one (manage.py idem beat)."
    return f"No beat leads; the last one ticked {span(age)} ago. Start one (manage.py idem beat)."
