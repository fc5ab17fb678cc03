"""``idem pause``, ``resume`` and ``pauses``: which tasks wait, until when and why."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from ...exceptions import ConfigurationError
from ...identity.text import harmless
from ...ledger.moments import database_now
from ...ledger.stores import LedgerStore
from ...models import Pause
from ...operations import pauses
from ...operations.findings import no_sweeper
from ...operations.status import is_led
from ...operations.tasks import known_task, unknown_task
from ...operations.text import span, table
from ..cli.reason import reason_of, who
from ..cli.report import FINDINGS, Options, Report, Say, could_not_run

_YES = "Say --yes to do it."


def pause_task(store: LedgerStore, options: Options, _say: Say) -> Report:
    """Pause a task: its calls wait in the ledger, and what runs ends."""
    task, scope, lasts = options["task"], options.get("scope") or "", options["lasts"]
    reason, of = reason_of(options), _named(task, scope)
    lines = [] if known_task(task) is not None else [unknown_task()]
    facts = {"task": task, "scope": scope or None}
    if not options["yes"]:
        line = f"Dry run: would pause {of} for {span(lasts.total_seconds())}."
        return Report({"outcome": "dry run", **facts}, [line, *lines, _YES])
    try:
        row = pauses.pause(
            store, task, scope=scope, lasts=lasts, rate=options["rate"], reason=reason, by=who()
        )
    except ConfigurationError as error:
        raise could_not_run(str(error)) from None
    line = f"Paused {of} until {row.until:%Y-%m-%d %H:%M}; workers know of it within seconds."
    more = [f"'idem resume --task {harmless(task)}' ends it before that.", *_unled(store)]
    return Report({"outcome": "paused", **facts, "until": row.until}, [line, *more, *lines])


def resume_task(store: LedgerStore, options: Options, _say: Say) -> Report:
    """End a pause now; the sweeper sends what waits, at the rate."""
    task, scope = options["task"], options.get("scope") or ""
    row, facts = pauses.find(store, task, scope), {"task": task, "scope": scope or None}
    if row is None:
        line = f"{_named(task, scope)} is not paused; 'idem pauses' lists what is."
        return Report({"outcome": "not paused", **facts}, [line], FINDINGS)
    rate, held = options.get("rate") or row.rate, pauses.held(store, row)
    if not options["yes"]:
        line = f"Dry run: would resume {_named(task, scope)}; {held} call(s) wait, sent at {rate} a second."
        return Report({"outcome": "dry run", **facts, "waiting": held.facts()}, [line, _YES])
    try:
        done = pauses.resume(store, row, by=who(), rate=rate)
    except ConfigurationError as error:
        raise could_not_run(str(error)) from None
    if not done:
        line = "Somebody else has resumed it, or its time was over, meanwhile."
        return Report({"outcome": "not paused", **facts}, [line], FINDINGS)
    line = f"Resumed {_named(task, scope)}: the sweeper sends {held} call(s) that wait, {rate} a second."
    return Report({"outcome": "resumed", **facts, "waiting": held.facts()}, [line, *_unled(store)])


def list_pauses(store: LedgerStore, _options: Options, _say: Say) -> Report:
    """List the pauses in force, and those that are over whose calls are being sent."""
    now = database_now(store)
    found = pauses.shown(store, now)
    facts = {"pauses": [each.facts() for each in found]}
    if not found:
        return Report(facts, ["Nothing is paused."])
    head = ("task", "scope", "pause", "waiting", "rate", "by", "reason")
    return Report(facts, table([head, *(_line(each, now) for each in found)]))


def _line(each: pauses.Shown, now: datetime) -> tuple[object, ...]:
    row = each.row
    left = span((row.until - now).total_seconds())
    ends = f"ends in {left}" if each.is_active else "is over, being sent"
    return (row.task, row.scope or "every", ends, each.held, f"{row.rate}/s", row.paused_by, row.reason)


def pause_lines(found: list[pauses.Shown], now: datetime) -> list[tuple[str, str]]:
    """A line of the status for each pause."""
    rows = []
    for each in found:
        _task, _scope, ends, held, *_rest = _line(each, now)
        text = f"{harmless(str(each.row))} {ends}; {held} call(s) wait: {harmless(each.row.reason)}"
        rows.append(("paused", text))
    return rows


def in_force(store: LedgerStore, report: Report) -> Report:
    """The report of a probe with the pauses that are in force, which make nothing unhealthy."""
    now = database_now(store)
    rows = pauses.active(store.connection.alias, now)
    named = [
        {"task": row.task, "scope": row.scope or None, "until": row.until, "reason": row.reason}
        for row in rows
    ]
    lines = [*report.lines, *(_paused(row, now) for row in rows)]
    return replace(report, facts={**report.facts, "pauses": named}, lines=lines)


def _paused(row: Pause, now: datetime) -> str:
    left, who = span((row.until - now).total_seconds()), harmless(row.paused_by)
    return f"{_named(row.task, row.scope)} is paused for {left} more, by {who}: {harmless(row.reason)}"


def _named(task: str, scope: str) -> str:
    return harmless(task) + (f" of the scope {harmless(scope)}" if scope else "")


def _unled(store: LedgerStore) -> list[str]:
    return [] if is_led(store) else [no_sweeper()]
