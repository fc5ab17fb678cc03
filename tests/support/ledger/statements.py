"""What a store said to its database: counted, and explained by the database itself."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from django.db import connections, transaction
from django.test.utils import CaptureQueriesContext

from django_idempotent_tasks.ledger.stores import LedgerStore, get_store

Work = Callable[[LedgerStore], object]

#: What reads no table, or tells the server of a statement that is named later.
_NOT_EXPLAINED = re.compile(r"SAVEPOINT|^PREPARE|^DISCARD")


def said(alias: str, work: Work) -> list[str]:
    """The statements of ``work``, in order, each with its parameters in place.

    Django notes a BEGIN itself, also one that goes out with the statement behind it.
    """
    store = get_store(alias)
    with CaptureQueriesContext(connections[alias]) as captured:
        work(store)
    return [query["sql"].strip().removeprefix("BEGIN; ").strip() for query in captured.captured_queries]


def verbs(alias: str, work: Work) -> list[str]:
    """The first word of each statement of ``work``."""
    return [statement.split(maxsplit=1)[0].upper() for statement in said(alias, work)]


@dataclass(frozen=True)
class Access:
    """How a plan reads one table: the kind of node, its index, and the condition on that index."""

    node: str
    table: str
    index: str = ""
    condition: str = ""


def postgresql_plan(work: Work, *, freely: bool = False) -> list[Access]:
    """How the statements of ``work`` read tables, where an index can serve them; nothing is changed.

    A table that was analysed while it was small would else be read whole, whatever its indexes. On a large
    one the server may choose ``freely``.
    """
    statements = _unsaid(work)
    accesses: list[Access] = []
    with transaction.atomic(using="default"), connections["default"].cursor() as cursor:
        cursor.execute(f"SET LOCAL enable_seqscan = {'on' if freely else 'off'}")
        for statement in statements:
            cursor.execute(f"EXPLAIN (FORMAT JSON) {statement}")
            found = cursor.fetchone()[0]
            plan = json.loads(found) if isinstance(found, str) else found
            accesses += _accesses(plan[0]["Plan"])
    return accesses


def postgresql_pages(work: Work) -> int:
    """How many pages the statements of ``work`` touch, those of the cache too; nothing is changed."""
    statements, pages = _unsaid(work), 0
    with transaction.atomic(using="default"), connections["default"].cursor() as cursor:
        for statement in statements:
            cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}")
            found = cursor.fetchone()[0]
            plan = (json.loads(found) if isinstance(found, str) else found)[0]["Plan"]
            pages += plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
        transaction.set_rollback(True, using="default")
    return pages


def _unsaid(work: Work) -> list[str]:
    """The statements of ``work``, whose changes are taken back."""
    with transaction.atomic(using="default"):
        statements = [one for one in said("default", work) if not _NOT_EXPLAINED.search(one)]
        transaction.set_rollback(True, using="default")
    return statements


def _accesses(node: dict[str, Any]) -> Iterator[Access]:
    if "Relation Name" in node and "Scan" in node["Node Type"]:
        yield Access(
            node["Node Type"],
            node["Relation Name"],
            node.get("Index Name", ""),
            node.get("Index Cond", ""),
        )
    for child in node.get("Plans", ()):
        yield from _accesses(child)


def sqlite_plan(work: Work) -> list[str]:
    """How the statements of ``work`` read tables, by SQLite's own choice; nothing is changed."""
    with transaction.atomic(using="sqlite"):
        statements = said("sqlite", work)
        transaction.set_rollback(True, using="sqlite")
    steps = []
    with connections["sqlite"].cursor() as cursor:
        for statement in statements:
            if statement.split()[0] in {"INSERT", "UPDATE", "SELECT", "DELETE", "WITH"}:
                cursor.execute(f"EXPLAIN QUERY PLAN {statement}")
                steps += [row[3] for row in cursor.fetchall()]
    return steps
