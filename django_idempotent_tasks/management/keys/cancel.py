"""``idem keys cancel``: cancels one key, or all live keys that fit, each in a transaction of its own."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.db.models import Q

from ...identity.text import harmless
from ...ledger.moments import database_now
from ...ledger.stores import LedgerStore
from ...models import IdempotencyKey
from ...operations.batch_following import follow_soon
from ...operations.cancel import cancel_key
from ...operations.search import Wanted, by_digest
from ...operations.workers import holder
from ...states import LIVE, State
from ..cli.missing import no_key
from ..cli.reason import reason_of, who
from ..cli.report import FINDINGS, FINE, Options, Report, Say, could_not_run

logger = logging.getLogger("django_idempotent_tasks")

#: How many rows one query reads.
PAGE = 1000

#: Waiting calls are cancelled first, so that they do not begin meanwhile.
ORDER = (State.PENDING, State.RETRY, State.RUNNING)

_NOTE = "Bodies that run are not stopped, but the ledger refuses their completion."


def cancel_keys(store: LedgerStore, options: Options, say: Say) -> Report:
    """Cancel one key by its digest, or the keys of a task or a scope."""
    digest, wanted, reason = options.get("digest"), Wanted.of(options), reason_of(options)
    if digest is not None:
        if wanted != Wanted():
            raise could_not_run("Give a digest or filters, not both.")
        return _cancel_one(store, digest, reason, yes=options["yes"])
    if wanted.task is None and wanted.scope is None:
        raise could_not_run("Give a digest, or --task NAME or --scope SCOPE with further filters.")
    if wanted.state is not None and wanted.state not in LIVE:
        raise could_not_run("Only pending, retry and running keys can be cancelled.")
    matching = _matching(store, wanted)
    if not options["yes"]:
        return _planned(Counter(state.name.lower() for state, _row in matching))
    outcomes: Counter[str] = Counter()
    for number, (_state, row) in enumerate(matching, start=1):
        outcomes[_cancel(store, row, only=wanted.state)] += 1
        if number % PAGE == 0:
            say(f"{number} looked at ...")
    _log(f"{outcomes['cancelled']} keys ({_words(wanted)})", reason, outcomes)
    return _done(outcomes)


def _log(what: str, reason: str, outcomes: Counter[str]) -> None:
    """Log one line, for one key or for all that fit."""
    if outcomes["cancelled"]:
        logger.warning("%s cancelled %s: %s", who(), what, harmless(reason))


def _words(wanted: Wanted) -> str:
    given = {"task": wanted.task, "scope": wanted.scope, "older than": wanted.older_than}
    given["state"] = None if wanted.state is None else wanted.state.name
    return ", ".join(f"{name} {harmless(value)}" for name, value in given.items() if value is not None)


def _matching(store: LedgerStore, wanted: Wanted) -> Iterator[tuple[State, IdempotencyKey]]:
    """The live keys that match, each once, read a page at a time."""
    now, seen = database_now(store), set[UUID]()
    for state in ORDER if wanted.state is None else (wanted.state,):
        for row in _live(store.connection.alias, state):
            if wanted.fits(row, now) and row.digest not in seen:
                seen.add(row.digest)
                yield state, row


def _live(alias: str, state: State) -> Iterator[IdempotencyKey]:
    """The keys of a state in the order of the sweeper's index; a key whose due time moves may come twice."""
    keys = IdempotencyKey.objects.using(alias).filter(state=state, due_at__isnull=False)
    rows = keys.order_by("due_at", "digest").only("task", "scope", "created_at", "task_id", "due_at")
    after = Q()
    while page := list(rows.filter(after)[:PAGE]):
        yield from page
        last = page[-1]
        further = Q(due_at__gt=last.due_at) | Q(digest__gt=last.digest)
        after = Q(due_at__gte=last.due_at) & further


def _cancel(store: LedgerStore, row: IdempotencyKey, *, only: State | None) -> str:
    """Cancel the call that ``row`` shows, and no later call of the key; returns what became of it.

    ``only``: a key that has left this state is left alone. Its row is locked for that, without waiting.
    """
    alias = store.connection.alias
    keys = IdempotencyKey.objects.using(alias).filter(digest=row.digest).select_for_update(skip_locked=True)
    with nullcontext() if only is None else transaction.atomic(using=alias):
        is_there = only is None or keys.filter(state=only).first() is not None
        if is_there and cancel_key(store, row):
            follow_soon(store, row.digest)
            return "cancelled"
    return _why_not(store, row, only)


def _why_not(store: LedgerStore, row: IdempotencyKey, only: State | None) -> str:
    now = by_digest(store.connection.alias, row.digest)
    if now is None or now.state not in LIVE or now.task_id != row.task_id:
        return "ended"
    if only is not None and now.state != only:
        return "moved on"
    return "locked"  # by a transaction that is ending the call, or is about to


def _planned(found: Counter[str], row: IdempotencyKey | None = None, now: datetime | None = None) -> Report:
    total = sum(found.values())
    by_state = ", ".join(f"{number} {state}" for state, number in found.items()) or "none"
    lines = [f"Dry run: would cancel {total} key(s): {by_state}.", _NOTE, "Say --yes to do it."]
    if row is not None and now is not None and row.state == State.RUNNING:
        lines.insert(1, f"It is held by {holder(row, now).text}.")
    return Report({"outcome": "dry run", "keys": total, "states": dict(found)}, lines)


def _done(outcomes: Counter[str]) -> Report:
    """The counts of what was cancelled and of what was not, each with the reason."""
    remarks = {
        "ended": "had ended or got a new call meanwhile",
        "moved on": "began or moved on meanwhile and were left alone",
        "locked": "are locked by a transaction that is ending them: look again",
    }
    lines = [f"Cancelled {outcomes['cancelled']} key(s). {_NOTE}"]
    lines += [f"{outcomes[name]} {remark}." for name, remark in remarks.items() if outcomes[name]]
    counts = {name.replace(" ", "_"): outcomes[name] for name in ("cancelled", *remarks)}
    return Report({"outcome": "done", **counts}, lines, FINDINGS if outcomes["locked"] else FINE)


def _cancel_one(store: LedgerStore, digest: UUID, reason: str, *, yes: bool) -> Report:
    row = by_digest(store.connection.alias, digest)
    if row is None:
        return no_key()
    state = State(row.state)
    if state not in LIVE:
        facts = {"outcome": "not live", "state": state.name.lower()}
        return Report(facts, [f"Nothing to cancel: the key is {state.name}."], FINDINGS)
    if not yes:
        return _planned(Counter([state.name.lower()]), row, database_now(store))
    outcomes = Counter([_cancel(store, row, only=None)])
    _log(f"{harmless(row.task)} {row.digest}", reason, outcomes)
    return _done(outcomes)
