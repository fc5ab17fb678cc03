"""A PostgreSQL that takes its time at one statement, as long as a test wants."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from django.db import connections

from django_idempotent_tasks.models import IdempotencyKey
from tests.sample.models import Effect
from tests.support.waiting import eventually

LOCK = 4711
KEYS, EFFECTS = IdempotencyKey._meta.db_table, Effect._meta.db_table


@dataclass(frozen=True)
class Slow:
    """The statement that waits in the server, by a trigger."""

    name: str
    trigger: str
    #: Of which rows alone.
    when: str = ""

    def __str__(self) -> str:
        return self.name


CLAIM = Slow("the claim", f"CREATE TRIGGER crash_slow BEFORE INSERT ON {KEYS}")
#: Deferred: it runs when COMMIT has arrived.
COMMIT = Slow(
    "the commit",
    f"CREATE CONSTRAINT TRIGGER crash_slow AFTER INSERT ON {EFFECTS} DEFERRABLE INITIALLY DEFERRED",
)
COMPLETION = Slow("the completion", f"CREATE TRIGGER crash_slow BEFORE UPDATE OF result ON {KEYS}")


@dataclass(frozen=True)
class Server:
    """What the test does to the server meanwhile, on its own connection."""

    alias: str

    def run(self, statement: str) -> None:
        """Run one statement."""
        with connections[self.alias].cursor() as cursor:
            cursor.execute(statement)

    @contextmanager
    def holding_up(self, slow: Slow) -> Iterator[None]:
        """Let the statement wait from now on, until :meth:`let_go`."""
        self.run(
            "CREATE OR REPLACE FUNCTION crash_wait() RETURNS trigger LANGUAGE plpgsql AS"
            f" $$ BEGIN PERFORM pg_advisory_xact_lock({LOCK}); RETURN NEW; END $$"
        )
        self.run(f"{slow.trigger} FOR EACH ROW {slow.when} EXECUTE FUNCTION crash_wait()")
        self.run(f"SELECT pg_advisory_lock({LOCK})")
        try:
            yield
        finally:
            self.let_go()
            self.run("DROP FUNCTION crash_wait() CASCADE")

    def let_go(self) -> None:
        """Let the statement go on."""
        self.run("SELECT pg_advisory_unlock_all()")

    def wait_until_held_up(self) -> frozenset[int]:
        """Wait until a statement waits; the server's processes that do."""
        return eventually(self.waiting, "a statement waits in the server", every=0.002)

    def waiting(self) -> frozenset[int]:
        """The server's processes that wait for a lock."""
        with connections[self.alias].cursor() as cursor:
            cursor.execute(
                "SELECT l.pid FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid"
                " WHERE NOT l.granted AND a.datname = current_database()"
            )
            return frozenset(pid for (pid,) in cursor.fetchall())
