"""Notes which database connections a task has altered with SET, session locks or temporary tables.

Settings of a session, its locks and its temporary tables outlive the task on a kept connection, and a
claim or a completion there would meet them. Asking the server what has become of its session would cost
each task a round trip; reading what goes through Django's cursors costs none. What is noted in vain, because
it was taken back or stood in a text, costs one new connection. What the driver is told directly is not seen.
"""

from __future__ import annotations

import re
from typing import Any
from weakref import WeakSet

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

from ..conf import settings

#: At the start of a statement, in a text of several, or in what a driver's own text object shows of itself.
#: Not what ends with the statement or the transaction, nor our own word to MySQL, which is taken back.
_SAID = re.compile(
    r"""(?:^|[;'"])(?:\s|--[^\n]*+|/\*(?:[^*]|\*(?!/))*+\*/)*+(?:
        SET\s++(?!LOCAL\b|TRANSACTION\b|CONSTRAINTS\b|STATEMENT\b|[^;]*@idem_wait)(?P<name>(?:SESSION\s+)?\w*)
        |LOCK\s+TABLES?\b|CREATE\s+(?:OR\s+REPLACE\s+)?(?:LOCAL\s+|GLOBAL\s+)?TEMP|DISCARD\b|LISTEN\b
        |PREPARE\b|DECLARE\b|USE\b|PRAGMA\b|ATTACH\b|FLUSH\b)
    |\bset_config\s*\((?!(?:[^()]|\([^()]*\))*?,\s*true\s*\))
    |\bpg_(?:try_)?advisory_lock|\bget_lock\s*\(|\bINTO\s+TEMP""",
    re.IGNORECASE | re.VERBOSE,
)
#: Saves the look at most statements: how they begin, and what they would have in them.
_HARMLESS = ("select", "insert", "update", "delete", "with", "savepoint", "release", "rollback")
_HARMFUL = (";", "set_config", "advisory_lock", "get_lock", "into temp")
#: As our own statements spell it, whose settings all end with their transaction.
_OURS = "pg_catalog.set_config"
#: A text is looked at no further: what alters a session is short, and rows to insert are long.
_LOOKED_AT = 1000
_UID = "django_idempotent_tasks"

_altered: WeakSet[BaseDatabaseWrapper] = WeakSet()


def listen() -> None:
    """From now on read what goes through the connections that this process opens."""
    connection_created.connect(_on_created, dispatch_uid=_UID)


def is_altered(connection: BaseDatabaseWrapper) -> bool:
    """Whether something was said to this connection that lasts, since it was opened."""
    return connection in _altered and connection.connection is not None


def alters(sql: object) -> bool:
    """Whether a statement may leave something behind on its connection.

    A search path is not counted where the setting SCHEMA makes our statements independent of it.
    """
    text = (sql if isinstance(sql, str) else repr(sql))[:_LOOKED_AT].replace(_OURS, "")
    plain = text.lstrip().lower()
    if plain.startswith(_HARMLESS) and not any(word in plain for word in _HARMFUL):
        return False
    found = _SAID.search(text)
    if found is None:
        return False
    return not (settings().schema and str(found["name"]).lower().endswith("search_path"))


def _on_created(connection: Any = None, **_kwargs: object) -> None:
    _altered.discard(connection)
    if _note not in connection.execute_wrappers:
        connection.execute_wrappers.insert(0, _note)  # who leaves an execute_wrapper() takes the last one off


def _note(execute: Any, sql: Any, params: Any, many: Any, context: Any) -> Any:
    if alters(sql):
        _altered.add(context["connection"])
    return execute(sql, params, many, context)
