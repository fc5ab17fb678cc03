"""What PostgreSQL itself says that it was told by one connection."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from django.db import connections

from tests.support.ledger.known_pauses import known_pauses

#: They begin and end a transaction, and say nothing else.
_BRACKETS = frozenset({"BEGIN", "COMMIT", "ROLLBACK"})
_READING = frozenset({"SELECT", "SHOW"})


@dataclass
class Heard:
    """The messages that the server logged, in order, and their statements."""

    messages: list[str] = field(default_factory=list)

    @property
    def statements(self) -> list[str]:
        """The statements, each by itself also where one message held two."""
        return [statement for message in self.messages for statement in message.split("; ")]

    @property
    def words(self) -> list[str]:
        """The first word of each, but for those that begin and end transactions."""
        words = [statement.split(maxsplit=1)[0].upper() for statement in self.statements]
        return [word for word in words if word not in _BRACKETS]

    @property
    def commits(self) -> int:
        """How often something that was written was committed: COMMIT, or a writing statement by itself."""
        commits, is_open = 0, False
        for statement in self.statements:
            word = statement.split(maxsplit=1)[0].upper()
            if word == "BEGIN":
                is_open = True
            elif word in {"COMMIT", "ROLLBACK"}:
                commits += word == "COMMIT"
                is_open = False
            elif not is_open:
                commits += word not in _READING
        return commits


@contextmanager
def heard_by_postgresql(alias: str = "default") -> Iterator[Heard]:
    """Let the server report each statement of this thread's connection, as it reports notices."""
    connection, heard = connections[alias], Heard()
    prefixes = ("statement: ", "execute <unnamed>: ")

    def hear(diagnostic: Any) -> None:
        text = str(diagnostic.message_primary)
        heard.messages += [
            text.removeprefix(prefix).strip() for prefix in prefixes if text.startswith(prefix)
        ]

    with connection.cursor() as cursor:
        cursor.execute("SET log_statement = 'all'")
        cursor.execute("SET client_min_messages = 'log'")
    driver = connection.connection
    driver.add_notice_handler(hear)
    try:
        yield heard
    finally:
        driver.remove_notice_handler(hear)
        with connection.cursor() as cursor:
            cursor.execute("RESET client_min_messages")
            cursor.execute("RESET log_statement")


def told(work: Callable[[], object]) -> Heard:
    """What the server was told by ``work``, but for the look for pauses, one every two seconds."""
    with known_pauses(), heard_by_postgresql() as heard:
        work()
    heard.messages = [each for each in heard.messages if not each.startswith("RESET ")]
    return heard
