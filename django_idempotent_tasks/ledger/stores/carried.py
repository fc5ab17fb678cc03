"""On PostgreSQL, sends the last statement of a transaction in one message with its COMMIT.

That saves a round trip. A completion in the transaction of its body's writes, a step's value and a record's
outcome are such last statements. Each fences its claim: where it changes no row the transaction has to be
undone, so that here it is an error of the server, which reads nothing behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from django.db import DataError
from django.db.backends.base.base import BaseDatabaseWrapper

from ...states import State
from ..values import Claim
from . import statements
from .again import Repeated
from .connection import binds_here, is_outermost
from .session import is_seen_open

#: What COMMIT carries ends with it.
END = "; COMMIT"
#: A fence that finds no row is a division by zero, the error whose check PostgreSQL plans soonest.
WITH_COMMIT = f"WITH last AS ({{}} RETURNING 1) SELECT 1 / count(*) FROM last{END}"
_DIVISION_BY_ZERO = "22012"

_DJANGOS: Any = BaseDatabaseWrapper


class Carrier:
    """The COMMIT of one transaction, which may carry a statement of one claim."""

    def __init__(self, connection: BaseDatabaseWrapper, claim: Claim) -> None:
        self._connection: Any = connection
        self._claim = claim
        self._is_loaded = self._has_committed = False

    def takes(self, claim: Claim) -> bool:
        """Whether the connection's next COMMIT is that of the claim's own transaction, and ours to send."""
        connection = self._connection
        if self._claim is not claim or not is_outermost(connection) or not binds_here(connection):
            return False
        if connection.needs_rollback:
            return False  # Django sends no COMMIT then, and says so to whoever sends a statement
        return getattr(connection._commit, "__func__", None) is _DJANGOS._commit  # noqa: SLF001  none of a backend

    def load(self, commit: Callable[[], object]) -> None:
        """Let Django commit by this: it rolls back, runs hooks and handles errors as it always does."""

        def noting() -> None:
            self.unload()  # a hook of this commit may commit something else
            commit()
            self._has_committed = True
            # What a wrapper of the project's says after each statement has begun another transaction, in
            # which Django could not go back to autocommit, and would run no hook.
            if is_seen_open(self._connection):
                _DJANGOS._commit(self._connection)  # noqa: SLF001

        self._is_loaded = True
        self._connection._commit = noting  # noqa: SLF001  the one place that atomic() commits by

    def unload(self) -> None:
        """Let the connection commit as before."""
        if self._is_loaded:
            vars(self._connection).pop("_commit", None)

    def may_have_lost(self, error: DataError) -> bool:
        """Whether the fence may have found no row: a trigger or a hook of the commit may raise the same."""
        if not self._is_loaded or self._has_committed:
            return False
        return getattr(error.__cause__, "sqlstate", None) == _DIVISION_BY_ZERO


class Carried(Repeated):
    """Adds last statements that COMMIT carries: they count as done, and COMMIT fails where they are not."""

    _carrier: Carrier | None = None

    @contextmanager
    def carrying(self, claim: Claim, lost: Callable[[], Exception]) -> Iterator[None]:
        before, carrier = self._carrier, Carrier(self.connection, claim)
        try:
            self._carrier = carrier
            try:
                yield
            finally:
                carrier.unload()
        except DataError as error:
            if carrier.may_have_lost(error) and not self._is_owner(claim):
                raise lost() from error
            raise
        finally:
            carrier.unload()  # again, where a signal has struck in the first: every commit would be this one
            self._carrier = before

    def _is_owner(self, claim: Claim) -> bool:
        entry = self.read(claim.digest, task_id=claim.call.task_id)
        if entry is None:
            return False
        return (entry.state, entry.token, entry.owner) == (State.RUNNING, claim.token, claim.owner)

    def _settle_last(self, template: str, claim: Claim, **values: object) -> bool:
        carrier = self._carrier
        if carrier is None or not carrier.takes(claim):
            return super()._settle_last(template, claim, **values)
        carrier.load(lambda: self._settle(with_commit(template), claim, **values))
        return True

    def _count_last(self, template: str, claim: Claim, **own: str) -> int:
        carrier = self._carrier
        if carrier is None or not carrier.takes(claim):
            return super()._count_last(template, claim, **own)
        carrier.load(lambda: self._count_again(with_commit(template), claim, **own))
        return 1


@cache
def with_commit(template: str) -> str:
    """The statement with its fence and COMMIT: nobody waits between the two, so that nothing bounds that."""
    return WITH_COMMIT.format(template.replace(statements.BOUNDED, "").strip())
