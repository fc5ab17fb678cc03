"""MariaDB and MySQL: keeps a transaction open, and locks rows before it writes them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any
from uuid import UUID

from .reading import Parameters
from .sql import SqlStore


class LockedWrites(SqlStore):
    """Adds what an UPDATE without SKIP LOCKED needs: it names rows that its transaction has locked."""

    _has_begun = False

    @property
    def _is_in_transaction(self) -> bool:
        return self._has_begun or self.connection.in_atomic_block or not self.connection.get_autocommit()

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

    def _listed(self, digests: set[UUID]) -> tuple[str, Parameters]:
        listed = {f"g{i}": self.dialect.uuid(digest) for i, digest in enumerate(sorted(digests))}
        return ", ".join(f"%({name})s" for name in listed), listed
