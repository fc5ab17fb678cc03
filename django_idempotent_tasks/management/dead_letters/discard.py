"""``idem dead-letters discard``: takes dead letters off the lists; their rows stay until they are pruned."""

from __future__ import annotations

from ...identity.text import harmless
from ...ledger.moments import database_now
from ...ledger.stores import LedgerStore
from ...models import DEAD, IdempotencyKey
from ...operations import dead_letters
from ...operations.groups import kinds
from ...operations.search import by_digest
from ...operations.selection import Selection
from ..cli.chosen import one_or_many
from ..cli.missing import no_key, not_dead
from ..cli.reason import reason_of, who
from ..cli.report import FINDINGS, FINE, Options, Report, Say
from .list import group_lines

#: Kinds of error that a dry run lists.
KINDS = 20

_MEANS = "Its record stays until it is pruned; a later call may have the key."


def discard(store: LedgerStore, options: Options, say: Say) -> Report:
    """Discard one dead letter by its digest, or all that fit."""
    wanted, reason = one_or_many(store, options), reason_of(options)
    if isinstance(wanted, Selection):
        return _many(store, wanted, reason, say) if options["yes"] else _planned(store, wanted)
    row = by_digest(store.connection.alias, wanted)
    if row is None:
        return no_key()
    return discard_one(store, row, reason, yes=options["yes"]) if row.state in DEAD else not_dead(row)


def discard_one(store: LedgerStore, row: IdempotencyKey, reason: str, *, yes: bool) -> Report:
    """Discard a dead letter as it was read."""
    facts: dict[str, object] = {"digest": row.digest}
    if row.discarded_at is not None:
        return Report(
            facts | {"outcome": "discarded before"}, ["This dead letter is discarded already."], FINDINGS
        )
    if not yes:
        words = f"Dry run: would discard {harmless(row.task)} {harmless(row.key_text)}. {_MEANS}"
        return Report(facts | {"outcome": "dry run"}, [words, "Say --yes to do it."])
    decision = dead_letters.discard(store, row, by=who(), reason=reason)
    if not decision.done:
        line = f"Not discarded: {harmless(decision.problem)}."
        return Report(facts | {"outcome": "moved on", "text": line}, [line], FINDINGS)
    return Report(facts | {"outcome": "discarded"}, [f"Discarded. {_MEANS}"])


def _planned(store: LedgerStore, selection: Selection) -> Report:
    alias = store.connection.alias
    total, groups = selection.query(alias).count(), kinds(alias, selection, KINDS)
    facts = {
        "outcome": "dry run",
        "dead_letters": total,
        "groups": [group.facts() for group in groups],
    }
    lines = [f"Dry run: would discard {total:,} dead letter(s)."]
    if groups:
        lines += ["", *group_lines(groups, database_now(store)), ""]
    return Report(facts, [*lines, "Say --yes to do it."])


def _many(store: LedgerStore, selection: Selection, reason: str, say: Say) -> Report:
    """Discard the dead letters that have ended by now: later ones are left for another decision."""
    done, moved = dead_letters.discard_all(
        store, selection, by=who(), reason=reason, tell_so_far=lambda so_far: say(f"{so_far:,} discarded ...")
    )
    lines = [f"Discarded {done:,} dead letter(s)."]
    if moved:
        lines.append(f"{moved:,} had moved on meanwhile and were left alone.")
    facts = {"outcome": "done", "discarded": done, "moved_on": moved}
    return Report(facts, lines, FINDINGS if moved else FINE)
