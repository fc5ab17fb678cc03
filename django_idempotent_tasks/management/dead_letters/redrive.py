"""``idem dead-letters redrive``: redrives one dead letter, or begins a redrive of many."""

from __future__ import annotations

from collections import Counter
from copy import copy
from dataclasses import dataclass

from ...identity.text import harmless
from ...ledger.moments import database_now
from ...ledger.stores import LedgerStore
from ...models import DEAD, IdempotencyKey
from ...operations import dead_letters, redrives
from ...operations.groups import Kind, kinds
from ...operations.search import by_digest
from ...operations.selection import Selection
from ..cli.chosen import one_or_many
from ..cli.missing import no_key, not_dead
from ..cli.reason import reason_of, who
from ..cli.report import FINDINGS, FINE, Options, Report, Say, could_not_run
from .list import group_lines
from .operations import begun, wait_for

#: How many kinds of error a dry run lists, and for how many calls it checks the arguments.
KINDS, TRIED = 20, 1000
#: How many calls one query reads: each message may be as large as MAX_PAYLOAD.
PAGE = 50


def redrive(store: LedgerStore, options: Options, say: Say) -> Report:
    """Redrive one dead letter by its digest, or all that fit."""
    wanted, reason = one_or_many(store, options), reason_of(options)
    if isinstance(wanted, Selection):
        if options.get("arguments") is not None:
            raise could_not_run("--arguments need a DIGEST: they are for one dead letter.")
        return _many(store, wanted, options, say, reason)
    if options.get("rate") is not None or options.get("wait"):
        raise could_not_run("--rate and --wait are for many dead letters; one is redriven at once.")
    row = by_digest(store.connection.alias, wanted)
    if row is None:
        return no_key()
    return redrive_one(store, row, options, reason) if row.state in DEAD else not_dead(row)


def redrive_one(store: LedgerStore, row: IdempotencyKey, options: Options, reason: str) -> Report:
    """Redrive a dead letter as it was read; without ``--yes`` only say what would happen."""
    edited = options.get("arguments")
    try:
        text = dead_letters.redrive_message(row, edited)
    except ValueError as error:
        return _report(row, "not possible", [f"Cannot be redriven: {harmless(error)}"], FINDINGS)
    if text is None:
        problem = dead_letters.why_unsendable(row)
        return _report(row, "not possible", [f"Cannot be redriven: {problem}."], FINDINGS)
    remarks = _remarks(row, text)
    if not options["yes"]:
        key = f"{harmless(row.task)} {harmless(row.key_text)}"
        words = f"Dry run: would run {key} again{' with other arguments' if edited else ''}."
        kept = "Key, call and downstream keys stay the same; attempts are counted from 0."
        return _report(row, "dry run", [words, kept, *remarks, "Say --yes to do it."], FINE)
    decision = dead_letters.redrive(store, row, by=who(), reason=reason, edited=edited)
    if not decision.done:
        return _report(row, "moved on", [f"Not redriven: {harmless(decision.problem)}."], FINDINGS)
    lines = ["Redriven: the key is PENDING, and the sweeper sends its call at its next look."]
    return _report(row, "redriven", [*lines, *remarks], FINE)


def _remarks(row: IdempotencyKey, text: str) -> list[str]:
    """Why the redrive may fail, judged by the message that would be sent."""
    sent = copy(row)
    sent.message = text
    problem = dead_letters.known_problem(sent)
    return [] if problem is None else [f"The call is likely to fail again: {harmless(problem)}."]


def _report(row: IdempotencyKey, outcome: str, lines: list[str], code: int) -> Report:
    facts = {"digest": row.digest, "outcome": outcome, "text": " ".join(lines)}
    return Report(facts, lines, code)


# -- many --


@dataclass(frozen=True, slots=True)
class Plan:
    """What a redrive of many would do. ``tried`` calls were checked for reasons to fail again.

    ``unreadable`` of these have a message that cannot be read or sent: the redrive skips them.
    """

    groups: list[Kind]
    total: int
    stored: int
    problems: Counter[str]
    tried: int
    unreadable: int

    @property
    def sendable(self) -> int:
        """How many calls it would send, as far as they were checked."""
        return self.stored - self.unreadable

    def facts(self) -> dict[str, object]:
        """For JSON."""
        return {
            "dead_letters": self.total,
            "cannot_be_sent": self.total - self.sendable,
            "groups": [group.facts() for group in self.groups],
            "tried": self.tried,
            "unreadable": self.unreadable,
            "likely_to_fail": dict(self.problems),
        }


def _many(store: LedgerStore, selection: Selection, options: Options, say: Say, reason: str) -> Report:
    if not options["yes"]:
        return _planned(store, selection, options)
    total = selection.query(store.connection.alias).count()
    if not total:
        return Report({"outcome": "nothing", "dead_letters": 0}, ["No dead letter fits: nothing to redrive."])
    try:
        operation = redrives.begin(
            selection, by=who(), reason=reason, rate=options.get("rate"), alias=store.connection.alias
        )
    except ValueError as error:
        raise could_not_run(str(error)) from None
    return wait_for(store, operation.pk, say) if options.get("wait") else begun(store, operation)


def _planned(store: LedgerStore, selection: Selection, options: Options) -> Report:
    plan = _plan(store, selection)
    facts = {"outcome": "dry run", **plan.facts()}
    if not plan.total:
        return Report(facts, ["Dry run: no dead letter fits."])
    pace = f", at most {options['rate']} a second" if options.get("rate") else ""
    bound = "up to " if plan.tried < plan.total else ""
    lines = [f"Dry run: would redrive {bound}{plan.sendable:,} dead letter(s){pace}.", *_skipped_lines(plan)]
    lines += ["", *group_lines(plan.groups, database_now(store))]
    if sum(group.count for group in plan.groups) < plan.total:
        lines.append(f"The {len(plan.groups)} most frequent kinds.")
    lines += ["", *_problem_lines(plan), "Say --yes to do it."]
    return Report(facts, lines)


def _skipped_lines(plan: Plan) -> list[str]:
    lines = []
    if plan.stored < plan.total:
        missing = plan.total - plan.stored
        lines.append(f"{missing:,} more fit, but their message is not stored: they are skipped.")
    if plan.unreadable:
        of = f" of the {plan.tried:,} that were checked" if plan.tried < plan.total else ""
        lines.append(f"{plan.unreadable:,} more{of} have a message that cannot be read: they are skipped.")
    return lines


def _plan(store: LedgerStore, selection: Selection) -> Plan:
    alias = store.connection.alias
    found = selection.query(alias)
    problems, tried, unreadable = _problems(alias, selection)
    total, stored = found.count(), found.filter(message__isnull=False).count()
    return Plan(kinds(alias, selection, KINDS), total, stored, problems, tried, unreadable)


def _problems(alias: str, selection: Selection) -> tuple[Counter[str], int, int]:
    """Why the first calls would fail again, how many were checked, and how many cannot be sent at all."""
    problems: Counter[str] = Counter()
    tried = unreadable = 0
    for page in selection.pages(alias, size=PAGE):
        for row in page:
            if row.message is not None and dead_letters.redrive_message(row) is None:
                unreadable += 1
            elif (problem := dead_letters.known_problem(row)) is not None:
                problems[f"{row.task}: {problem}"] += 1
        tried += len(page)
        if tried >= TRIED:
            break
    return problems, tried, unreadable


def _problem_lines(plan: Plan) -> list[str]:
    if not plan.problems:
        return []
    of = f" of the {plan.tried:,} that were checked" if plan.tried < plan.total else ""
    lines = [f"{plan.problems.total():,}{of} are likely to fail again:"]
    return [*lines, *(f"- {number:,}: {harmless(words)}" for words, number in plan.problems.most_common(10))]
