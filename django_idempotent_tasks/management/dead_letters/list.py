"""``idem dead-letters list``: prints dead letters by the signature of their error, or one a line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from ...ledger.encoding import decode_error
from ...ledger.moments import database_now
from ...ledger.stores import LedgerStore
from ...models import IdempotencyKey
from ...operations.groups import Kind, kinds
from ...operations.selection import Selection
from ...operations.text import SHOWN, category_name, since, table
from ...states import State
from ..cli.chosen import selection_of
from ..cli.report import Options, Report, Say


def list_letters(store: LedgerStore, options: Options, _say: Say) -> Report:
    """List the dead letters that wait for a decision, or the discarded ones."""
    selection, now, limit = selection_of(store, options), database_now(store), options["limit"]
    alias = store.connection.alias
    if options.get("discarded"):
        return _rows(selection.discarded(alias).defer("message")[: limit + 1], now, limit, "discarded")
    if options.get("rows"):
        return _rows(selection.query(alias).defer("message")[: limit + 1], now, limit, "dead letters")
    return _grouped(store, selection, now, limit)


def _grouped(store: LedgerStore, selection: Selection, now: datetime, limit: int) -> Report:
    alias = store.connection.alias
    groups, total = kinds(alias, selection, limit + 1), selection.query(alias).count()
    more, groups = len(groups) > limit, groups[:limit]
    facts = {"groups": [group.facts() for group in groups], "total": total, "more": more}
    if not groups:
        return Report(facts, ["No dead letters."])
    lines = [*group_lines(groups, now), "", f"{total:,} dead letter(s)."]
    if more:
        lines.append("There are more kinds; --limit N shows them.")
    lines.append("'--rows --signature SIG' lists them, 'idem dead-letters show DIGEST' tells more.")
    return Report(facts, lines)


def group_lines(groups: Sequence[Kind], now: datetime) -> list[str]:
    """The kinds as a table."""
    head = ("count", "signature", "task", "state", "category", "oldest", "newest", "error")
    return table([head, *(_group_line(group, now) for group in groups)])


def _group_line(group: Kind, now: datetime) -> tuple[object, ...]:
    ages = (since(group.oldest, now), since(group.newest, now))
    name = category_name(group.category) or "-"
    kind = (group.signature, group.task, group.state.name.lower(), name)
    return (group.count, *kind, *ages, group.error[:SHOWN])


def _rows(found: Iterable[IdempotencyKey], now: datetime, limit: int, key: str) -> Report:
    rows = list(found)
    more, rows = len(rows) > limit, rows[:limit]
    facts = {key.replace(" ", "_"): [letter_facts(row) for row in rows], "more": more}
    if not rows:
        return Report(facts, ["No dead letters." if key == "dead letters" else "Nothing is discarded."])
    head = ("digest", "state", "category", "task", "scope", "key", "signature", "ended", "error")
    lines = table([head, *(_line(row, now) for row in rows)])
    return Report(facts, [*lines, *(["There are more; --limit N shows them."] if more else [])])


def letter_facts(row: IdempotencyKey) -> dict[str, object]:
    """The facts of one dead letter, without its arguments."""
    return {
        "digest": row.digest,
        "state": State(row.state).name.lower(),
        "category": category_name(row.category),
        "signature": row.signature,
        "task": row.task,
        "scope": row.scope,
        "key": row.key_text,
        "task_id": row.task_id,
        "attempts": row.attempts,
        "crashes": row.crashes,
        "created": row.created_at,
        "finished": row.finished_at,
        "discarded": row.discarded_at,
        "error": decode_error(row.result),
    }


def _line(row: IdempotencyKey, now: datetime) -> tuple[object, ...]:
    facts = letter_facts(row)
    scope = "-" if row.scope is None else row.scope or '""'
    kind = (row.digest, facts["state"], facts["category"] or "-")
    ended = f"{since(row.finished_at, now)} ago"
    return (*kind, row.task, scope, row.key_text, row.signature, ended, str(facts["error"])[:SHOWN])
