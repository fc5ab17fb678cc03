"""``idem dead-letters resolve``: ends one dead letter as a person says: run again, done, or discarded."""

from __future__ import annotations

from ...identity.text import harmless
from ...ledger.stores import LedgerStore
from ...models import DEAD, IdempotencyKey
from ...operations import dead_letters
from ...operations.search import by_digest
from ..cli.missing import no_key, not_dead
from ..cli.reason import reason_of, who
from ..cli.report import FINDINGS, Options, Report, Say, could_not_run
from .discard import discard_one
from .redrive import redrive_one


def resolve(store: LedgerStore, options: Options, _say: Say) -> Report:
    """Carry out exactly one of ``--rerun``, ``--done`` and ``--abandon``."""
    done, reason = options.get("done"), reason_of(options)
    if bool(options.get("rerun")) + bool(options.get("abandon")) + (done is not None) != 1:
        raise could_not_run("Say one of --rerun, --done RESULT, --abandon.")
    row = by_digest(store.connection.alias, options["digest"])
    if row is None:
        return no_key()
    if row.state not in DEAD:
        return not_dead(row)
    if options.get("rerun"):
        return redrive_one(store, row, options, reason)
    if options.get("abandon"):
        return discard_one(store, row, reason, yes=options["yes"])
    return _done(store, row, options, reason)


def _done(store: LedgerStore, row: IdempotencyKey, options: Options, reason: str) -> Report:
    (result,) = options["done"]
    facts: dict[str, object] = {"digest": row.digest}
    if not options["yes"]:
        words = f"Dry run: would end {harmless(row.task)} {harmless(row.key_text)} as SUCCEEDED."
        lines = [words, "No call runs; other calls of the key get this result.", "Say --yes to do it."]
        return Report(facts | {"outcome": "dry run"}, lines)
    try:
        decision = dead_letters.resolve(store, row, result, by=who(), reason=reason)
    except ValueError as error:
        raise could_not_run(str(error)) from None
    if not decision.done:
        line = f"Not resolved: {harmless(decision.problem)}."
        return Report(facts | {"outcome": "moved on", "text": line}, [line], FINDINGS)
    return Report(facts | {"outcome": "resolved"}, ["Resolved: the key is SUCCEEDED with your result."])
