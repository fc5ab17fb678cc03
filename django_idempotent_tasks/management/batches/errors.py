"""``idem batches errors``: prints what failed of a batch, grouped by error, or each record as CSV."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from ...ledger.moments import database_now
from ...ledger.stores import LedgerStore
from ...models import Batch, BatchRecord
from ...operations.batch_csv import csv_lines
from ...operations.batch_errors import Errors, by_signature, failed, in_order, record_facts
from ...operations.text import SHOWN, category_name, since, table
from ..cli.missing import no_batch
from ..cli.report import Options, Report, Say, could_not_run


def list_errors(store: LedgerStore, options: Options, say: Say) -> Report:
    """List the errors of a batch with their numbers; of one category or signature, its failed records."""
    alias, batch = store.connection.alias, options["batch"]
    rows = failed(alias, batch, category=options.get("category"), signature=options.get("signature"))
    if options.get("csv"):
        return _as_csv(rows, options, say)
    if options.get("payload"):
        raise could_not_run("--payload is for --csv.")
    if not Batch.objects.using(alias).filter(pk=batch).exists():
        return no_batch()
    if options.get("category") is None and options.get("signature") is None:
        return _grouped(store, options)
    return _one_by_one(list(rows.order_by("index").defer("value")[: options["limit"] + 1]), options["limit"])


def _as_csv(rows: Any, options: Options, say: Say) -> Report:
    if options["format"] == "json":
        raise could_not_run("--csv is a form of its own: leave out --format json.")
    values = bool(options.get("payload"))
    for line in csv_lines(in_order(rows, values=values), descriptions=True, values=values):
        say(line.removesuffix("\r\n"))
    return Report({}, [], is_silent=True)


def _grouped(store: LedgerStore, options: Options) -> Report:
    limit = options["limit"]
    found = by_signature(store.connection.alias, options["batch"], limit + 1)
    more, found = len(found) > limit, found[:limit]
    facts = {"errors": [each.facts() for each in found], "more": more}
    if not found:
        return Report(facts, ["No record failed."])
    lines = error_table(found, database_now(store))
    return Report(
        facts, [*lines, *_more(more=more), "'--signature SIG' lists its records, '--csv' prints all."]
    )


def error_table(found: Sequence[Errors], now: datetime) -> list[str]:
    """The errors as a table."""
    head = ("records", "category", "signature", "newest", "error", "message")
    return table([head, *(_line(each, now) for each in found)])


def _line(each: Errors, now: datetime) -> tuple[object, ...]:
    newest = f"{since(each.last.at, now)} ago"
    message = each.last.description[:SHOWN]
    return (each.count, category_name(each.category), each.signature, newest, each.last.error, message)


def _one_by_one(rows: list[BatchRecord], limit: int) -> Report:
    more, rows = len(rows) > limit, rows[:limit]
    facts = {"records": [record_facts(row) for row in rows], "more": more}
    if not rows:
        return Report(facts, ["No record failed in this way."])
    head = ("record", "category", "signature", "attempt", "error", "message")
    lines = [
        (
            row.index,
            category_name(row.category),
            row.signature,
            row.attempt,
            row.error,
            row.description[:SHOWN],
        )
        for row in rows
    ]
    return Report(facts, [*table([head, *lines]), *_more(more=more)])


def _more(*, more: bool) -> list[str]:
    return ["There are more; --limit N shows them."] if more else []
