"""``idem batches redrive`` and ``cancel``: a dry run until ``--yes``."""

from __future__ import annotations

from ...identity.text import harmless
from ...ledger.stores import LedgerStore
from ...models import Batch
from ...operations.batch_counts import Numbers, numbers
from ...operations.batch_decisions import cancel
from ...operations.batch_redrives import problem_of, redrive
from ...states import Category
from ..cli.missing import no_batch
from ..cli.reason import reason_of, who
from ..cli.report import FINDINGS, Options, Report, Say
from .show import batch_facts, ended, find, state_name

_YES = "Say --yes to do it."


def cancel_batch(store: LedgerStore, options: Options, _say: Say) -> Report:
    """Cancel a batch: what waits is cancelled, what runs goes on to its end."""
    reason, row = reason_of(options), find(store, options["batch"])
    if row is None:
        return no_batch()
    found = numbers(store.connection.alias, [row.id])[row.id]
    if ended(row):
        return _report(row, found, "ended", [f"Nothing to cancel: the batch is {state_name(row)}."], FINDINGS)
    if not options["yes"]:
        lines = [f"Dry run: would cancel the batch; {found.open:,} of {found.records:,} records wait."]
        return _report(row, found, "dry run", [*lines, "Chunks that run go on to their end.", _YES])
    decision = cancel(store, row, by=who(), reason=reason)
    if not decision.done:
        line = f"Not cancelled: {harmless(decision.problem)}."
        return _report(row, found, "moved on", [line], FINDINGS)
    return _report(row, found, "cancelled", ["Cancelled. Chunks that run go on to their end."])


def redrive_batch(store: LedgerStore, options: Options, _say: Say) -> Report:
    """Run the chunks again that need attention, or records of a category in new chunks."""
    reason, row = reason_of(options), find(store, options["batch"])
    if row is None:
        return no_batch()
    category: Category | None = options.get("category")
    found = numbers(store.connection.alias, [row.id])[row.id]
    problem = problem_of(store, row, category)
    if problem:
        line = f"Cannot be redriven: {harmless(problem)}{'' if problem.endswith('?') else '.'}"
        return _report(row, found, "not possible", [line], FINDINGS)
    if not options["yes"]:
        return _report(row, found, "dry run", [_planned(found, category), _YES])
    done = redrive(store, row, category=category, by=who(), reason=reason)
    outcome = "redriven" if done.done else "nothing"
    code = FINDINGS if done.problem or done.left else 0
    report = _report(row, found, outcome, [harmless(done.words())], code)
    facts = {
        **report.facts,
        "redriven_chunks": done.chunks,
        "redriven_records": done.records,
        "left": done.left,
    }
    return Report(facts, report.lines, report.code)


def _planned(found: Numbers, category: Category | None) -> str:
    if category is None and not found.attention:
        return "Dry run: no chunk needs attention. --category names failed records to redrive in new chunks."
    if category is None:
        return f"Dry run: would redrive {found.attention:,} chunk(s) that need attention."
    number = found.outcomes[category.name.lower()]
    return f"Dry run: would give up to {number:,} record(s) to new chunks: those of chunks that have ended."


def _report(row: Batch, found: Numbers, outcome: str, lines: list[str], code: int = 0) -> Report:
    return Report({"outcome": outcome, **batch_facts(row, found)}, lines, code)
