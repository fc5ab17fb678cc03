"""PostgreSQL: READ COMMITTED, one statement a transition, SKIP LOCKED where several may sweep."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from datetime import datetime
from uuid import UUID

from django.db import OperationalError
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Model

from ...conf import settings
from ...states import Reason, State
from ..rules import COMPLETED, IN_PROGRESS
from ..values import Answer, Call, Claim, Due, Entry, Grant, Refused
from . import clock
from . import postgresql_statements as words
from .atomic import AtomicClaims
from .begun import Begun
from .cancelling import Cancelling
from .chunk_ends import ChunkEnds
from .connection import is_open, transaction_on
from .cursors import Cursors
from .decisions import Decisions
from .dialect import Dialect
from .failures import Failures
from .follow_ups_sql import FollowUpCalls
from .hourly import Hours
from .limits import limited
from .locks import NOT_GRANTED, short_wait, taken_by
from .messages import Messages
from .pausing import Pausing
from .postgresql_many import PostgresMany, digests_array
from .prepared import Prepared
from .reading import Parameters, Row, due, to_entry
from .redrives import Redrives
from .session import Session, status_of
from .sql import SqlStore
from .steps import Steps
from .upkeep import LONGEST
from .workers import Workers

_INTRANS, _INERROR = 2, 3


class PostgresDialect(Dialect):
    """``statement_timestamp()``: usable in an index condition, and not the transaction's start."""

    true = "true"
    false = "false"
    least = "least"
    uuid_type = "uuid"
    unheld = words.LOCKED
    same = "IS NOT DISTINCT FROM"
    bounded = words.BOUNDED

    def table(self, model: type[Model]) -> str:
        """With its schema where the settings name one: a body may point the search path elsewhere."""
        schema, table = settings().schema, super().table(model)
        return f'"{schema}".{table}' if schema else table

    def sql(self, template: str) -> str:
        return super().sql(words.by_name(template))

    def now(self) -> str:
        offset = clock.offset()
        shift = f" + {words.seconds_of(str(offset))}" if offset else ""
        return f"(statement_timestamp(){shift})"

    def after(self, seconds: str) -> str:
        return f"{self.now()} + {words.seconds_of(seconds)}"

    def later(self, column: str, seconds: str) -> str:
        return f"{column} + {words.seconds_of(seconds)}"

    def until(self, column: str) -> str:
        return f"extract(epoch FROM {column} - {self.now()})"

    def between(self, first: str, last: str) -> str:
        return f"CAST(extract(epoch FROM {last} - {first}) AS double precision)"

    def uuid(self, value: UUID | None) -> object:
        return value


class PostgresStore(
    Begun,
    Prepared,
    PostgresMany,
    AtomicClaims,
    Failures,
    Decisions,
    Redrives,
    Pausing,
    Hours,
    Cursors,
    Workers,
    Cancelling,
    ChunkEnds,
    Messages,
    Steps,
    FollowUpCalls,
    SqlStore,
):
    """The first-class store."""

    dialect = PostgresDialect()

    def _claim_finished(self, parameters: Parameters) -> Row | None:
        return self._row(words.CLAIM_FINISHED, parameters)

    def _atomic_finished(self, parameters: Parameters) -> Row | None:
        return self._row(words.ATOMIC_FINISHED, parameters)

    def _hold(self, call: Call) -> bool:
        return bool(self._one(words.LOCK, self._call_parameters(call))[0])

    def _has_failed(self) -> bool | None:
        return {_INTRANS: False, _INERROR: True}.get(status_of(self.connection.connection))

    def _call_parameters(self, call: Call) -> Parameters:
        lock = int.from_bytes(call.identity.digest.bytes[:8], signed=True)
        return super()._call_parameters(call) | {"lock": lock}

    def claim_new(self, call: Call, *, owner: str, lease: int, durable: bool = True) -> Grant | None:
        if self.connection.in_atomic_block:
            self._tell_senders(call)
        return super().claim_new(call, owner=owner, lease=lease, durable=durable)

    def _claim(self, template: str, parameters: Parameters, *, durable: bool) -> Grant | None:
        if not durable and self._commits_itself():
            template = words.UNFLUSHED_CLAIMS[template]
        return super()._claim(template, parameters, durable=durable)

    def _commits_itself(self) -> bool:
        """Whether the next statement is a transaction; in another's it would loosen that one's commit."""
        return not is_open(self.connection) and self.session() is Session.IDLE

    def _tell_senders(self, call: Call) -> None:
        """Lock the key, so that no reservation waits for the end of this claim's transaction."""
        taken = taken_by(self.connection)
        if taken.is_used_up:
            self._one(words.SHARE_MANY, {})
        else:
            taken.count += self._one(words.LOCK, self._call_parameters(call))[0]

    def reserve_new(self, call: Call, *, wait: int, sends: int) -> int | None:
        parameters = self._call_parameters(call) | {"wait": wait, "sends": sends}
        taken = taken_by(self.connection)
        if taken.is_used_up:
            return self._reserve_slowly(parameters, locked=False)
        token, way = self._one(words.RESERVE_NEW, parameters)
        taken.count += way != words.HELD
        return self._reserve_slowly(parameters, locked=True) if way == words.AMONG_MANY else token

    def _reserve_slowly(self, parameters: Parameters, *, locked: bool) -> int | None:
        """Wait for a moment for a key that somebody may hold without a lock, behind a savepoint."""
        try:
            with transaction_on(self.connection), short_wait(self.connection):
                if not locked:
                    self._one(words.SHARE_MANY, {})
                template = words.RESERVE_AMONG_MANY if locked else words.RESERVE_UNLOCKED
                token: int | None = self._one(template, parameters)[0]
        except OperationalError as error:
            if getattr(error.__cause__, "sqlstate", None) not in NOT_GRANTED:
                raise
            return None
        return token

    def follow(self, call: Call, *, wait: int) -> bool:
        taken = taken_by(self.connection)
        if not taken.is_used_up:
            taken.count += 1
            return super().follow(call, wait=wait)
        try:
            with transaction_on(self.connection), short_wait(self.connection):
                return self._follow(self._call_parameters(call) | {"wait": wait})
        except OperationalError as error:
            if getattr(error.__cause__, "sqlstate", None) not in NOT_GRANTED:
                raise
            return False

    def _one(self, template: str, parameters: Parameters) -> Row:
        row = self._row(template, parameters)
        assert row is not None  # noqa: S101  a SELECT without a condition
        return row

    def _reserve_finished(self, parameters: Parameters) -> Row | None:
        taken = taken_by(self.connection)
        if taken.is_used_up:
            return self._row(words.RESERVE_FINISHED_UNLOCKED, parameters)
        taken.count += 1  # the lock may be taken also where the row has changed
        return self._row(words.RESERVE_FINISHED, parameters)

    def _cancel(self, which: str, parameters: Parameters) -> int:
        return self._count(words.cancel(which), parameters)

    def prune(self, state: State, *, bite: int) -> int:
        return int(self._one(words.PRUNE, {"state": int(state), "bite": bite})[0])

    def renew(self, held: Sequence[Claim]) -> set[UUID]:
        parameters: Parameters = {
            "digests": [str(claim.digest) for claim in held],
            "tokens": [claim.token for claim in held],
            "owners": [claim.owner for claim in held],
        }
        return {UUID(str(digest)) for (digest,) in self._rows(words.RENEW, parameters)}

    def _record_duplicate_statement(self) -> str:
        return words.RECORD_DUPLICATE if self._commits_itself() else super()._record_duplicate_statement()

    def read_noting(self, call: Call, *, place: str) -> Entry | None:
        return self._read_noting(words.READ_NOTING, call, place)

    def read_refusing(self, call: Call, *, place: str) -> Entry | None:
        is_alone = self._commits_itself()
        return self._read_noting(words.READ_REFUSING if is_alone else words.READ_REFUSING_AMONG, call, place)

    def refuse_at_once(self, call: Call, *, place: str, undone: bool) -> Refused | None:
        template = words.REFUSE[undone, self._commits_itself()]
        row = self._row(template, self._refusal_parameters(call, place))
        if row is None:
            return None
        state, reason, holder, result, opens_in = row
        why = COMPLETED if state == State.SUCCEEDED else IN_PROGRESS
        answer = Answer(State(state), Reason(reason), result)
        return Refused(why, holder, answer, None if opens_in is None else float(opens_in), is_noted=True)

    def _read_noting(self, template: str, call: Call, place: str) -> Entry | None:
        row = self._row(template, self._refusal_parameters(call, place))
        return None if row is None else replace(to_entry(row[:-2]), is_noted=row[-1])

    def _refusal_parameters(self, call: Call, place: str) -> Parameters:
        told = {"place": place, "completed": COMPLETED, "in_progress": IN_PROGRESS}
        return self._call_parameters(call) | told

    def sweep(
        self, *, bite: int, republish: int, calm: int = LONGEST, until: datetime | None = None
    ) -> list[Due]:
        parameters = self._sweep_parameters(bite, republish, calm, until)
        return [due(row) for row in self._rows(words.SWEEP, parameters)]

    def _of_many(self, template: str, digests: Iterable[UUID]) -> list[Row]:
        """As one parameter: the driver takes the statement apart at each."""
        many = template.replace("IN (DIGESTS)", "= ANY(%(digests)s::uuid[])")
        return self._rows(many, {"digests": digests_array(list(digests))})

    def sum_duplicates(self, *, bite: int) -> int:
        row = self._row(words.SUM_DUPLICATES, {"bite": bite})
        return int(row[0]) if row else 0

    def _are_beside(self, entries: str) -> bool:
        return bool(self._one(words.BESIDE, {"entries": entries})[0])

    def shorten_timeouts(self, connection: BaseDatabaseWrapper) -> None:
        options = connection.settings_dict.setdefault("OPTIONS", {})
        options.pop("pool", None)
        options.pop("prepare_threshold", None)  # its limits are told as one text of several statements
        options["connect_timeout"] = 2
        options["application_name"] = "idempotent-tasks"

    def limited(self, connection: BaseDatabaseWrapper, sql: str) -> AbstractContextManager[str]:
        return limited(connection, sql)

    def cut(self, connection: BaseDatabaseWrapper) -> None:
        # A copy of the descriptor: closing it leaves the driver's own one open, for the driver to close.
        with (
            suppress(Exception),  # not connected yet, or closed meanwhile
            socket.socket(fileno=os.dup(connection.connection.fileno())) as line,
        ):
            line.shutdown(socket.SHUT_RDWR)
