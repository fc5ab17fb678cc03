"""MariaDB and MySQL: keeps a transaction open, and locks rows before it writes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any
from uuid import UUID

from .connection import is_open
from .mysql_statements import DELETE
from .reading import Parameters
from .sql import SqlStore


class LockedWrites(SqlStore):
    """Adds what an UPDATE without SKIP LOCKED needs: it names rows that its transaction has locked."""

    _has_begun = False

    @property
    def _is_in_transaction(self) -> bool:
        return self._has_begun or is_open(self.connection)

    @contextmanager
    def together(self) -> Iterator[None]:
        begun, self._has_begun = self._has_begun, True
        try:
            with super().together():
                yield
        finally:
            self._has_begun = begun

    def _in_transaction(self) -> AbstractContextManager[None]:
        """The open transaction or a new one: BEGIN inside one would commit it."""
        return nullcontext() if self._is_in_transaction else self.together()

    def _column(self, select: str, parameters: Parameters) -> list[Any]:
        return [row[0] for row in self._rows(select, parameters)]

    def _locked(self, select: str, parameters: Parameters) -> set[UUID]:
        return {UUID(str(digest)) for digest in self._column(select, parameters)}

    def _write_locked(self, select: str, write: str, parameters: Parameters) -> set[UUID]:
        """Carry ``write`` out on what ``select`` can lock; which rows these are."""
        locked = self._locked(select, parameters)
        self._write_on(locked, write, parameters)
        return locked

    def _write_on(self, digests: set[UUID], write: str, parameters: Parameters) -> None:
        if digests:
            names, listed = self._listed(digests)
            self._count(write.format(digests=names), parameters | listed)

    def _delete(self, table: str, column: str, keys: Sequence[object], *, by: str = "PRIMARY") -> int:
        """Delete rows that are locked already, found by an index, and touch no other row."""
        if not keys:
            return 0
        parameters: Parameters = {f"g{i}": key for i, key in enumerate(keys)}
        picked = " UNION ALL SELECT ".join(f"%({name})s AS picked" for name in parameters)
        self._count(DELETE.format(table=table, column=column, picked=picked, by=by), parameters)
        return len(keys)

    def _listed(self, digests: set[UUID]) -> tuple[str, Parameters]:
        listed = {f"g{i}": self.dialect.uuid(digest) for i, digest in enumerate(sorted(digests))}
        return ", ".join(f"%({name})s" for name in listed), listed
