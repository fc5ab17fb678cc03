"""Real stores with one piece of one statement replaced."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from django.db import connections

from django_idempotent_tasks.ledger.stores import LedgerStore
from django_idempotent_tasks.ledger.stores.again import Repeated
from django_idempotent_tasks.ledger.stores.postgresql import PostgresStore
from django_idempotent_tasks.ledger.stores.reading import Parameters, Row
from django_idempotent_tasks.ledger.stores.sqlite import SqliteStore
from django_idempotent_tasks.ledger.values import Claim
from django_idempotent_tasks.testing.contract import StoreContract


@dataclass(frozen=True)
class Mutation:
    """What is wrong, which text of the statements becomes which, and the promise that this breaks.

    ``where`` narrows it to the statements that contain this text as well.
    """

    name: str
    old: str
    new: str
    promise: str
    where: str = ""

    def of(self, template: str) -> str:
        """The statement with the mistake, or as it was where it does not contain the text."""
        return template.replace(self.old, self.new) if self.where in template else template


class _Broken(Repeated):
    mutation: ClassVar[Mutation]
    changed: ClassVar[set[str]]

    def _row(self, template: str, parameters: Parameters) -> Row | None:
        return super()._row(self._break(template), parameters)

    def _rows(self, template: str, parameters: Parameters) -> list[Row]:
        return super()._rows(self._break(template), parameters)

    def _count(self, template: str, parameters: Parameters) -> int:
        return super()._count(self._break(template), parameters)

    def _count_again(self, template: str, claim: Claim, **own: str) -> int:
        return super()._count_again(self._break(template), claim, **own)

    def _break(self, template: str) -> str:
        broken = self.mutation.of(template)
        if broken != template:
            self.changed.add(template)
        return broken


class BrokenPostgresStore(_Broken, PostgresStore):
    """PostgreSQL's."""

    def _rows_saved(self, template: str, parameters: Parameters) -> list[Row]:
        return super()._rows_saved(self._break(template), parameters)


class BrokenSqliteStore(_Broken, SqliteStore):
    """SQLite's."""


BROKEN: dict[str, type[_Broken]] = {"postgresql": BrokenPostgresStore, "sqlite": BrokenSqliteStore}


def contract_on(alias: str, mutation: Mutation) -> tuple[StoreContract, set[str]]:
    """The shipped contract on a broken store, and the statements that the mistake has reached so far."""
    changed: set[str] = set()
    base = BROKEN[connections[alias].vendor]
    store_class = type("Mutant", (base,), {"mutation": mutation, "changed": changed})

    class Subject(StoreContract):
        has_row_locks = connections[alias].vendor != "sqlite"

        def store(self) -> LedgerStore:
            store: LedgerStore = store_class(connections[alias])
            return store

    return Subject(), changed
