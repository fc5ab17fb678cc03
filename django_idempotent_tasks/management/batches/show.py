"""``idem batches list`` and ``show``: prints how far batches are."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from ...identity.text import harmless
from ...ledger.moments import database_now
from ...ledger.stores import LedgerStore
from ...models import Batch, BatchState
from ...operations.batch_counts import Numbers, numbers, share
from ...operations.batch_errors import by_signature
from ...operations.batch_sentences import what_next
from ...operations.text import since, table
from ..cli.missing import no_batch
from ..cli.report import FINDINGS, FINE, Options, Report, Say
from .errors import error_table

#: Kinds of error that ``show`` lists.
KINDS = 10
_ENDED = (BatchState.FINISHED, BatchState.CANCELLED)
#: Columns that no list reads.
_LONG = ("callback", "on_attention")


def list_batches(store: LedgerStore, options: Options, _say: Say) -> Report:
    """List the newest batches that fit the filters."""
    alias, now, limit = store.connection.alias, database_now(store), options["limit"]
    given = {"task": options.get("task"), "scope": options.get("scope"), "state": options.get("batch_state")}
    wanted = {name: value for name, value in given.items() if value is not None}
    found = Batch.objects.using(alias).filter(**wanted)
    rows = list(found.order_by("-created_at").defer(*_LONG)[: limit + 1])
    more, rows = len(rows) > limit, rows[:limit]
    counted = numbers(alias, [row.id for row in rows])
    facts = {"batches": [batch_facts(row, counted[row.id]) for row in rows], "more": more}
    if not rows:
        return Report(facts, ["No batches."])
    head = ("id", "state", "progress", "records", "failed", "task", "scope", "key", "made")
    lines = table([head, *(_line(row, counted[row.id], now) for row in rows)])
    return Report(facts, [*lines, *(["There are more; --limit N shows them."] if more else [])])


def _line(row: Batch, found: Numbers, now: datetime) -> tuple[object, ...]:
    scope = "-" if row.scope is None else row.scope or '""'
    made = f"{since(row.created_at, now)} ago"
    done = (_percent(row, found), found.records, found.failed)
    return (row.id, state_name(row), *done, row.task, scope, row.key_text, made)


def _percent(row: Batch, found: Numbers) -> str:
    return f"{int(progress(row, found) * 100)}%"


def ended(row: Batch) -> bool:
    """Whether a batch goes on no further by itself."""
    return row.state in _ENDED


def progress(row: Batch, found: Numbers) -> float:
    """How far a batch is, 0 to 1."""
    return share(found, sealed=row.sealed_at is not None)


def state_name(row: Batch) -> str:
    """The state in lower case, as options and JSON have it."""
    return BatchState(row.state).name.lower()


def batch_facts(row: Batch, found: Numbers) -> dict[str, object]:
    """For JSON."""
    return {
        "id": row.id,
        "state": state_name(row),
        "task": row.task,
        "scope": row.scope,
        "key": row.key_text,
        "progress": progress(row, found),
        **found.facts(),
        "created": row.created_at,
        "sealed": row.sealed_at,
        "attention": row.attention_at,
        "finished": row.finished_at,
        "cancelled_by": row.cancelled_by,
        "reason": row.reason,
    }


def show_batch(store: LedgerStore, options: Options, _say: Say) -> Report:
    """Show one batch: its numbers, and its most frequent errors. A batch that needs a person is a finding."""
    alias, now = store.connection.alias, database_now(store)
    row = find(store, options["batch"])
    if row is None:
        return no_batch()
    found, errors = numbers(alias, [row.id])[row.id], by_signature(alias, row.id, KINDS)
    facts = {**batch_facts(row, found), "errors": [each.facts() for each in errors]}
    lines = [*_lines(row, found, now), *(["", *error_table(errors, now)] if errors else []), *_next(row, now)]
    return Report(facts, lines, FINDINGS if row.state == BatchState.NEEDS_ATTENTION else FINE)


def _lines(row: Batch, found: Numbers, now: datetime) -> list[str]:
    counted = found.facts()
    cancelled = "" if row.cancelled_by is None else f"{row.cancelled_by}: {row.reason}"
    rows = [
        ("batch", row.id),
        ("task", row.task),
        ("scope", "-" if row.scope is None else row.scope),
        ("key", row.key_text),
        ("state", state_name(row)),
        ("progress", _percent(row, found)),
        ("records", _counts(counted["records"])),
        ("chunks", _counts(counted["chunks"])),
        ("made", f"{since(row.created_at, now)} ago"),
        ("submitted in full", "no" if row.sealed_at is None else f"{since(row.sealed_at, now)} ago"),
        *([("finished", f"{since(row.finished_at, now)} ago")] if row.finished_at else []),
        *([("cancelled by", cancelled)] if cancelled else []),
    ]
    return table(rows)


def _counts(counted: dict[str, int]) -> str:
    words = [f"{number:,} {name.replace('_', ' ')}" for name, number in counted.items() if number]
    return ", ".join(words) or "none"


def _next(row: Batch, now: datetime) -> list[str]:
    lines = ["", what_next(row, now)]
    if row.state == BatchState.NEEDS_ATTENTION:
        task = harmless(row.task)
        lines.append("'idem batches redrive' runs them again.")
        lines.append(f"'idem dead-letters list --task {task} --rows' names them one by one.")
    return lines


def find(store: LedgerStore, batch: UUID) -> Batch | None:
    """The batch of an id."""
    return Batch.objects.using(store.connection.alias).filter(pk=batch).first()
