"""Notes which database connections a task has altered with SET, session locks or temporary tables.

Settings of a session, its locks and its temporary tables outlive the task on a kept connection, and the
next claim or completion there would meet them. Asking the server for the state of its session would cost
each task a round trip; reading the statements in Django's cursors costs none. A statement that is noted in
vain, because it was undone later or stood in a text, costs one new connection. Statements that a task gives
to the driver directly are not seen.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any
from weakref import WeakSet

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

from ..conf import settings
from ..ledger.stores.dialect import OurText
from ..ledger.stores.prepared import begin_anew, forget

#: Found at the start of a statement, in a text of several, or in the repr of a driver's own text object.
#: Left out: settings that end with the statement or transaction, and our own for MySQL, which we reset.
_ALTERING = re.compile(
    r"""(?:^|[;'"])(?:\s|--[^\n]*+|/\*(?:[^*]|\*(?!/))*+\*/)*+(?:
        SET\s++(?!LOCAL\b|TRANSACTION\b|CONSTRAINTS\b|STATEMENT\b|[^;]*@idem_wait)(?P<name>(?:SESSION\s+)?\w*)
        |LOCK\s+TABLES?\b|CREATE\s+(?:OR\s+REPLACE\s+)?(?:LOCAL\s+|GLOBAL\s+)?TEMP|DISCARD\b|LISTEN\b
        |PREPARE\b|DEALLOCATE\b|DECLARE\b|USE\b|PRAGMA\b|ATTACH\b|FLUSH\b)
    |\bset_config\s*\((?!(?:[^()]|\([^()]*\))*?,\s*true\s*\))
    |\bpg_(?:try_)?advisory_lock|\bget_lock\s*\(|\bINTO\s+TEMP""",
    re.IGNORECASE | re.VERBOSE,
)
#: Spare most statements the search: how harmless ones begin, and the words with which they may do harm.
_HARMLESS = ("select", "insert", "update", "delete", "with", "savepoint", "release", "rollback")
_HARMFUL = (";", "set_config", "advisory_lock", "get_lock", "into temp")
#: How our own statements spell set_config; all their settings end with the transaction.
_OURS = "pg_catalog.set_config"
#: Characters of a statement that are searched: one that alters a session is short, rows to insert are long.
_SEARCHED = 1000
_UID = "django_idempotent_tasks"

_altered: WeakSet[BaseDatabaseWrapper] = WeakSet()


def listen() -> None:
    """Read, from now on, the statements on every connection that this process opens."""
    connection_created.connect(_on_created, dispatch_uid=_UID)


def any_altered() -> bool:
    """Whether any connection may be altered: a look that costs next to nothing."""
    return len(_altered) > 0


def is_altered(connection: BaseDatabaseWrapper) -> bool:
    """Whether a statement on this connection has altered its session since it was opened."""
    return connection in _altered and connection.connection is not None


def alters(sql: object) -> bool:
    """Whether a statement may leave something behind on its connection.

    A search path is not counted where the setting SCHEMA makes our statements independent of it.
    """
    if isinstance(sql, OurText):
        return False
    name = _altered_by((sql if isinstance(sql, str) else repr(sql))[:_SEARCHED])
    return name is not None and not (settings().schema and name.endswith("search_path"))


@lru_cache(maxsize=512)  # the statements of a task are the same texts again and again
def _altered_by(text: str) -> str | None:
    """The setting that a statement alters, "none" for something else; None where it alters nothing."""
    text = text.replace(_OURS, "")
    plain = text.lstrip().lower()
    if plain.startswith(_HARMLESS) and not any(word in plain for word in _HARMFUL):
        return None
    found = _ALTERING.search(text)
    return None if found is None else str(found["name"]).lower()


def _on_created(connection: Any = None, **_kwargs: object) -> None:
    _altered.discard(connection)
    begin_anew(connection)
    if _note not in connection.execute_wrappers:
        connection.execute_wrappers.insert(0, _note)  # first: leaving an execute_wrapper() pops the last one


def _note(execute: Any, sql: Any, params: Any, many: Any, context: Any) -> Any:
    if alters(sql):
        _altered.add(context["connection"])
        forget(context["connection"])
    return execute(sql, params, many, context)
