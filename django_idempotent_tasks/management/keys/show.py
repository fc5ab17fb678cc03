"""``idem keys list`` and ``idem keys show``: prints keys, and what happens to one next."""

from __future__ import annotations

from ...exceptions import InvalidKey
from ...identity.text import harmless
from ...ledger.moments import database_now
from ...ledger.stores import LedgerStore
from ...models import IdempotencyKey
from ...operations.search import WINDOW, Found, Wanted, by_digest, by_text, newest
from ...operations.text import since, table
from ...operations.workers import Fleet, fleet
from ...states import State
from ..cli.missing import no_key
from ..cli.report import Options, Report, Say, could_not_run
from .card import brief, card, card_lines


def list_keys(store: LedgerStore, options: Options, _say: Say) -> Report:
    """List the newest keys that fit the filters."""
    now, wanted = database_now(store), Wanted.of(options)
    found = newest(store.connection.alias, wanted, now=now, limit=options["limit"])
    workers = fleet(store, now=now)
    facts = {
        "keys": [brief(row, now) | {"holder": _holder(row, workers)} for row in found.rows],
        "more": found.has_more,
        "looked_at_all": found.is_all,
    }
    return Report(facts, _listed(found, workers))


def _listed(found: Found, workers: Fleet) -> list[str]:
    head = ("digest", "state", "task", "scope", "key", "attempts", "age", "holder")
    lines = table([head, *(_line(row, workers) for row in found.rows)]) if found.rows else ["No keys."]
    if found.has_more:
        lines.append("There are more; --limit N shows them.")
    if not found.is_all:
        lines.append(f"The filters looked only at the newest {WINDOW:,} keys.")
    return lines


def _line(row: IdempotencyKey, workers: Fleet) -> tuple[object, ...]:
    facts = brief(row, workers.now)
    scope = "-" if row.scope is None else row.scope or '""'
    age, held = since(row.created_at, workers.now), _holder(row, workers) or "-"
    return (row.digest, facts["state"], row.task, scope, row.key_text, row.attempts, age, held)


def _holder(row: IdempotencyKey, workers: Fleet) -> str | None:
    """Who runs the key's call now."""
    is_held = row.state == State.RUNNING
    return workers.holder_of(row.owner, row.started_at).text if is_held else None


def show_key(store: LedgerStore, options: Options, _say: Say) -> Report:
    """Show one key, and what happens to it next."""
    now, alias = database_now(store), store.connection.alias
    digest, key, wanted = options.get("digest"), options.get("key"), Wanted.of(options)
    if (digest is None) == (wanted.task is None or key is None):
        raise could_not_run("Give a digest, or --task NAME and --key TEXT.")
    row = by_digest(alias, digest) if digest is not None else _only(_called(alias, wanted, key or ""))
    if row is None:
        return no_key()
    facts = card(row, now, payload=bool(options.get("payload")))
    return Report(facts, card_lines(facts, row, now))


def _called(alias: str, wanted: Wanted, key: str) -> list[IdempotencyKey]:
    try:
        return by_text(alias, wanted, key)
    except InvalidKey as error:
        raise could_not_run(str(error)) from None


def _only(rows: list[IdempotencyKey]) -> IdempotencyKey | None:
    if len(rows) > 1:
        several = "; ".join(f"{row.digest} (scope {row.scope!r}, {harmless(row.key_text)})" for row in rows)
        raise could_not_run(f"Several keys have this text. Give the digest of one, or --scope: {several}.")
    return rows[0] if rows else None
