"""Keys on one of the tests' databases, and ``manage.py idem`` as a program would run it there."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command

from django_idempotent_tasks.ledger.stores import LedgerStore, get_store
from django_idempotent_tasks.testing.contract.bench import Bench

#: An escape that clears a terminal, a bell, a C1 control, a change of direction, a line of its own.
HOSTILE = "\x1b[2J\x07\x9b31m\u202egnp\nINJECTED"


class Keys(Bench):
    """Keys on one of the tests' databases."""

    def __init__(self, alias: str) -> None:
        self._alias = alias

    def store(self) -> LedgerStore:
        return get_store(self._alias)


both = pytest.mark.parametrize("keys", [Keys("default"), Keys("sqlite")], ids=["default", "sqlite"])


def idem(*words: object, **options: Any) -> tuple[int, str]:
    """Run the command as a program does: its exit code and what it printed."""
    printed = StringIO()
    try:
        call_command("idem", *words, stdout=printed, **options)
    except SystemExit as end:
        return int(str(end.code)), printed.getvalue()
    return 0, printed.getvalue()


def facts(keys: Keys, *words: object) -> tuple[int, Any]:
    """Run it on the database of ``keys``: its exit code and its JSON document."""
    code, printed = idem(*words, "--database", keys.alias, "--format", "json")
    return code, json.loads(printed)
