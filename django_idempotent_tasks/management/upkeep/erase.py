"""``idem prune --scope``: deletes what is finished of a departed tenant, whatever its age, in bites."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet

from ...ledger.stores import LedgerStore
from ...models import AnsweredCall, Batch, DuplicateAttempt, FailedJob, IdempotencyKey, Step
from ...states import PRUNED, State
from ..cli.report import FINDINGS, FINE, Options, Report, Say
from .erase_batches import erase_batches

#: How many rows one query reads: no index holds the scope.
STEP = 10_000


@dataclass(slots=True)
class _Bite:
    """What one step deleted or would delete, and which unfinished keys it kept."""

    deleted: Counter[str] = field(default_factory=Counter)
    kept: Counter[str] = field(default_factory=Counter)


def erase(store: LedgerStore, options: Options, say: Say) -> Report:
    """Delete the finished keys of one scope and all that belongs to them; report which keys are kept."""
    total, more = _Bite(), False
    limit = options["max_seconds"]
    end = None if limit is None else time.monotonic() + limit
    for bite in _bites(store.connection.alias, options["scope"], size=options["bite"], yes=options["yes"]):
        total.deleted.update(bite.deleted)
        total.kept.update(bite.kept)
        if end is not None and time.monotonic() >= end:
            more = True
            break
        if options["yes"] and bite.deleted:
            say(f"{_listed(total.deleted)} deleted ...")
            time.sleep(options["pause"])
    return _report(options["scope"], total, yes=options["yes"], more=more)


def _report(scope: str, total: _Bite, *, yes: bool, more: bool) -> Report:
    deed = "Deleted" if yes else "Dry run: would delete"
    lines = [f"{deed} of scope {scope!r}: {_listed(total.deleted)}."]
    if total.kept:
        lines.append(
            f"Kept, because not finished: {_listed(total.kept)}. End live keys with 'idem keys cancel"
            " --scope', batches with 'idem batches cancel', and prune again; decide about keys in review"
            " first."
        )
    if more:
        lines.append("Stopped at --max-seconds; there may be more.")
    if not yes:
        lines.append("A late message of a deleted key would run its call again. Say --yes to do it.")
    facts: dict[str, object] = {"outcome": "done" if yes else "dry run", "scope": scope, "more": more}
    facts |= {"deleted" if yes else "would_delete": dict(total.deleted), "kept": dict(total.kept)}
    return Report(facts, lines, FINDINGS if total.kept else FINE)


def _bites(alias: str, scope: str, *, size: int, yes: bool) -> Iterator[_Bite]:
    for page in _pages(IdempotencyKey.objects.using(alias), scope):
        states = {digest: State(state) for digest, state in page.values_list("digest", "state")}
        yield _Bite(kept=_counted(states, [digest for digest in states if states[digest] not in PRUNED]))
        for digests in _parts([digest for digest in states if states[digest] in PRUNED], size):
            yield _keys(alias, states, digests, yes=yes)
    for name, beside in (("duplicates", DuplicateAttempt), ("failed_jobs", FailedJob)):
        yield from _beside(name, beside.objects.using(alias), scope, size=size, yes=yes)
    for rows in _pages(Batch.objects.using(alias), scope):
        for deleted, kept in erase_batches(alias, rows, size=size, yes=yes):
            yield _Bite(deleted, kept)


def _beside(name: str, every: QuerySet[Any], scope: str, *, size: int, yes: bool) -> Iterator[_Bite]:
    """Delete rows of one kind whose key is finished or deleted."""
    for rows in _pages(every, scope):
        ids = list(_of_finished(rows).values_list("pk", flat=True))
        for part in _parts(ids, size):
            if yes:
                every.filter(pk__in=part).delete()
            yield _Bite(deleted=Counter({name: len(part)}))


def _keys(alias: str, states: dict[UUID, State], digests: Sequence[UUID], *, yes: bool) -> _Bite:
    """Delete these keys with their steps and earlier answers, but no key that has moved on meanwhile."""
    keys = IdempotencyKey.objects.using(alias).filter(digest__in=digests)
    answers = _of_finished(AnsweredCall.objects.using(alias).filter(digest__in=digests))
    steps = _of_finished(Step.objects.using(alias).filter(digest__in=digests))
    if not yes:
        return _Bite(_counted(states, digests) + Counter(answered=answers.count(), steps=steps.count()))
    with transaction.atomic(using=alias):
        keys.filter(state__in=PRUNED).delete()
        beside = Counter(answered=answers.delete()[0], steps=steps.delete()[0])
        left = dict(keys.values_list("digest", "state"))
    gone = [digest for digest in digests if digest not in left]
    moved_on = Counter(State(state).name.lower() for state in left.values())
    return _Bite(_counted(states, gone) + beside, moved_on)


def _of_finished(rows: QuerySet[Any]) -> QuerySet[Any]:
    """The rows whose key is finished or deleted."""
    live = IdempotencyKey.objects.using(rows.db).filter(digest=OuterRef("digest")).exclude(state__in=PRUNED)
    return rows.filter(~Exists(live))


def _pages(rows: QuerySet[Any], scope: str) -> Iterator[QuerySet[Any]]:
    """All rows of a scope, in queries that read ``STEP`` rows each."""
    rows = rows.order_by("pk")
    while True:
        edge = next(iter(rows.values_list("pk", flat=True)[STEP - 1 : STEP]), None)
        yield (rows if edge is None else rows.filter(pk__lte=edge)).filter(scope=scope)
        if edge is None:
            return
        rows = rows.filter(pk__gt=edge)


def _parts(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    return (items[start : start + size] for start in range(0, len(items), size))


def _counted(states: dict[UUID, State], digests: Sequence[UUID]) -> Counter[str]:
    return Counter(states[digest].name.lower() for digest in digests)


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.items()) or "nothing"
