"""``idem keys release``: takes a running key from its holder."""

from __future__ import annotations

import logging

from ...identity.text import harmless
from ...ledger import orphans
from ...ledger.moments import database_now
from ...ledger.stores import LedgerStore
from ...models import IdempotencyKey
from ...operations.search import by_digest
from ...operations.sentences import what_next
from ...operations.workers import Holder, holder
from ...states import State
from ..cli.missing import no_key
from ..cli.reason import who
from ..cli.report import FINDINGS, FINE, Options, Report, Say, could_not_run

logger = logging.getLogger("django_idempotent_tasks")

_REFUSED = "The present holder is not stopped, but the ledger refuses its completion from now on."


def release_key(store: LedgerStore, options: Options, _say: Say) -> Report:
    """Move a key from RUNNING to RETRY, due now, if it still has the token that was read."""
    reason = options["reason"].strip()
    if not reason:
        raise could_not_run("--reason must say why: it is logged.")
    row = by_digest(store.connection.alias, options["digest"])
    if row is None:
        return no_key()
    if row.state != State.RUNNING:
        return _nothing_to_release(row, store)
    if not options["yes"]:
        return _planned(row, holder(row, database_now(store)))
    if not orphans.release(store, row):
        return _report(row, "moved on", ["Nothing was released: the key has moved on. Look again."], FINDINGS)
    logger.warning(
        "%s released %s %s, token %d: %s", who(), harmless(row.task), row.digest, row.token, harmless(reason)
    )
    return _released(row, store)


def _nothing_to_release(row: IdempotencyKey, store: LedgerStore) -> Report:
    state = State(row.state).name
    lines = [f"Nothing to release: the key is {state}. {what_next(row, database_now(store), commands=True)}"]
    return _report(row, "not held", lines, FINDINGS)


def _planned(row: IdempotencyKey, held: Holder) -> Report:
    goal = "moves to REVIEW, for it is inside external()" if row.in_external else "can be claimed at once"
    call = harmless(row.runner_task_id or row.task_id)
    key = f"{harmless(row.task)} {harmless(row.key_text)}"
    lines = [
        f"Dry run: would release {key}, token {row.token}, held by {held.text} (call {call}).",
        f"{_REFUSED} The key {goal}.",
        "Say --yes to do it.",
    ]
    return _report(row, "dry run", lines, FINE)


def _released(row: IdempotencyKey, store: LedgerStore) -> Report:
    row.refresh_from_db(using=store.connection.alias)
    lines = [f"Released. {_REFUSED}", what_next(row, database_now(store), commands=True)]
    return _report(row, "released", lines, FINE)


def _report(row: IdempotencyKey, outcome: str, lines: list[str], code: int) -> Report:
    facts = {
        "digest": row.digest,
        "outcome": outcome,
        "state": State(row.state).name.lower(),
        "token": row.token,
    }
    return Report(facts, lines, code)
