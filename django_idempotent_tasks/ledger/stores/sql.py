"""The base of all SQL stores: runs the statements of a dialect, and returns frozen values."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import datetime
from threading import Timer
from typing import Any
from uuid import UUID

from django.db import Error as DatabaseError
from django.db.backends.base.base import BaseDatabaseWrapper

from ...identity.key import Identity
from ...messages.turns import patterns
from ...models.fields import MOMENT
from ...states import Reason, State
from ..rules import COMPLETED, IN_PROGRESS, decide
from ..values import Answer, Call, Claim, Entry, Grant, Refused
from . import claiming, statements
from .absent import note_missing_tables
from .base import LedgerStore
from .connection import is_open, transaction_on
from .dialect import Dialect
from .reading import Parameters, Row, is_token, seen_as, to_entry, to_grant, to_token, to_uuid
from .session import Session, session_of

#: Seconds until a statement on a side connection is given up; above the server's own timeout there.
SIDE_LIMIT = 3.0


class SqlStore(LedgerStore):
    """A ledger behind one Django connection: raw statements through its cursor, no ORM on the hot path."""

    dialect: Dialect

    def claim_new(self, call: Call, *, owner: str, lease: int, durable: bool = True) -> Grant | None:
        template = claiming.CLAIM_UNNAMED if call.named_here else claiming.CLAIM_NEW
        return self._claim(template, self._claim_parameters(call, owner, lease), durable=durable)

    def named(self, task: str, *, task_id: str) -> Identity | None:
        row = self._row(claiming.NAMED, {"known_task": task, "known_id": task_id})
        if row is None:
            return None
        digest, scope, key_text, fingerprint = row
        return Identity(UUID(str(digest)), scope, key_text, to_uuid(fingerprint))

    def read(self, digest: UUID, *, task_id: str) -> Entry | None:
        row = self._row(claiming.READ, {"digest": self.dialect.uuid(digest), "task_id": task_id})
        return None if row is None else to_entry(row)

    def read_noting(self, call: Call, *, place: str) -> Entry | None:  # noqa: ARG002
        return self.read(call.identity.digest, task_id=call.task_id)

    def read_refusing(self, call: Call, *, place: str) -> Entry | None:  # noqa: ARG002
        return self.read(call.identity.digest, task_id=call.task_id)

    def refuse_at_once(self, call: Call, *, place: str, undone: bool) -> Refused | None:  # noqa: ARG002
        if is_open(self.connection):
            return None
        entry = self.read(call.identity.digest, task_id=call.task_id)
        reason = decide(entry, call, owner="", on_failed="block").reason
        if entry is None or reason not in ({COMPLETED, IN_PROGRESS} if undone else {COMPLETED}):
            return None
        return Refused(reason, entry.task_id, Answer(entry.state, entry.reason, entry.result), entry.opens_in)

    def claim_open(
        self, call: Call, *, owner: str, lease: int, seen: Entry, counted: bool = False
    ) -> Grant | None:
        parameters = self._claim_parameters(call, owner, lease) | seen_as(seen) | {"uncount": int(counted)}
        return to_grant(self._row(claiming.CLAIM_OPEN, parameters))

    def claim_finished(self, call: Call, *, owner: str, lease: int, seen: Entry, window: int) -> Grant | None:
        parameters = self._claim_parameters(call, owner, lease) | seen_as(seen) | {"window": window}
        return to_grant(self._claim_finished(parameters))

    def claim_reserved(self, call: Call, *, owner: str, lease: int, durable: bool = True) -> Grant | None:
        parameters = self._claim_parameters(call, owner, lease)
        return self._claim(claiming.CLAIM_RESERVED, parameters, durable=durable)

    def _claim(self, template: str, parameters: Parameters, *, durable: bool) -> Grant | None:  # noqa: ARG002
        """Claim by one statement; every commit is durable where the database has no word for another."""
        return to_grant(self._row(template, parameters))

    def reserve_new(self, call: Call, *, wait: int, sends: int) -> int | None:
        parameters = self._call_parameters(call) | {"wait": wait, "sends": sends}
        return to_token(self._row(claiming.RESERVE_NEW, parameters))

    def reserve_finished(self, call: Call, *, wait: int, sends: int, seen: Entry, window: int) -> int | None:
        values = {"wait": wait, "sends": sends, "window": window}
        return to_token(self._reserve_finished(self._call_parameters(call) | seen_as(seen) | values))

    @abstractmethod
    def _reserve_finished(self, parameters: Parameters) -> Row | None:
        """Remember the replaced call and reserve the key, in one transaction."""

    @abstractmethod
    def _claim_finished(self, parameters: Parameters) -> Row | None:
        """Remember the replaced call and take the key, in one transaction."""

    def session(self, *, at_any_cost: bool = True) -> Session:
        return session_of(self.connection, at_any_cost=at_any_cost)

    def answer(self, digest: UUID, *, task_id: str) -> Answer | None:
        row = self._row(claiming.ANSWER, {"digest": self.dialect.uuid(digest), "task_id": task_id})
        return None if row is None else Answer(State(row[0]), Reason(row[1]), row[2])

    def progress(self, claim: Claim, *, text: str) -> bool:
        return self._settle(self._bounded_in_a_transaction(statements.PROGRESS), claim, progress=text)

    def complete(
        self, claim: Claim, *, result: str | None, reason: Reason, retention: int, window: int
    ) -> bool:
        template, kept = self._bounded_in_a_transaction(statements.COMPLETE), max(retention, window)
        return self._settle_last(
            template, claim, result=result, reason=int(reason), retention=retention, kept=kept
        )

    def _bounded_in_a_transaction(self, template: str) -> str:
        """An UPDATE of the owner's row; one that commits by itself leaves nothing open."""
        return f"{template}{statements.BOUNDED}" if is_open(self.connection) else template

    def sent(self, digests: Sequence[UUID], *, token: int, retention: int) -> int:
        listed = {f"digest_{number}": self.dialect.uuid(digest) for number, digest in enumerate(digests)}
        names = ", ".join(f"%({name})s" for name in listed)
        template = statements.SENT.replace("DIGESTS", names)
        return self._count(template, listed | {"token": token, "retention": retention}) if listed else 0

    def send_failed(self, digest: UUID, *, token: int) -> None:
        self._count(statements.SEND_FAILED, {"digest": self.dialect.uuid(digest), "token": token})

    def hasten(self, digest: UUID, *, token: int) -> bool:
        return self._count(statements.HASTEN, {"digest": self.dialect.uuid(digest), "token": token}) == 1

    def release(self, digest: UUID, *, token: int) -> bool:
        named = {"digest": self.dialect.uuid(digest), "token": token}
        return is_token(token) and self._count(statements.RELEASE, named) == 1

    def prune_answered(self, *, bite: int) -> int:
        return self._count(statements.PRUNE_ANSWERED, {"bite": bite})

    def prune_duplicates(self, *, keep: int, bite: int) -> int:
        return self._count(statements.PRUNE_DUPLICATES, {"keep": keep, "bite": bite})

    def record_duplicate(self, call: Call, *, place: str, reason: str) -> None:
        self._count(self._record_duplicate_statement(), self._duplicate_parameters(call, place, reason))

    def _duplicate_parameters(self, call: Call, place: str, reason: str) -> Parameters:
        return {
            "digest": self.dialect.uuid(call.identity.digest),
            "scope": call.identity.scope,
            "task_id": call.task_id,
            "place": place,
            "reason": reason,
        }

    def _record_duplicate_statement(self) -> str:
        return statements.RECORD_DUPLICATE

    def lead(self, name: str, *, holder: str, lease: int) -> bool:
        return self._row(statements.LEAD, {"name": name, "holder": holder, "lease": lease}) is not None

    def led_for(self, name: str) -> float | None:
        row = self._row(statements.LED_FOR, {"name": name})
        return None if row is None else float(row[0])

    def resign(self, name: str, *, holder: str) -> None:
        self._count(statements.RESIGN, {"name": name, "holder": holder})

    def together(self) -> AbstractContextManager[None]:
        return transaction_on(self.connection)

    def _write_first(self) -> None:
        """Begin the open transaction with a write, where one that has read first could fail for it."""

    @contextmanager
    def side_connection(self) -> Iterator[LedgerStore]:
        connection = self.connection.copy()
        self.shorten_timeouts(connection)
        try:
            with self._bounded(connection):
                connection.ensure_connection()
            with connection.execute_wrapper(self._execute_bounded):
                yield type(self)(connection)
        finally:
            connection.close()

    def bounded(self) -> AbstractContextManager[None]:
        return self._bounded(self.connection)

    def _execute_bounded(self, execute: Any, sql: Any, params: Any, many: Any, context: Any) -> Any:
        connection = context["connection"]
        with self._bounded(connection), self.limited(connection, sql) as limited:
            return execute(limited, params, many, context)

    @contextmanager
    def _bounded(self, connection: BaseDatabaseWrapper) -> Iterator[None]:
        """Cut the connection if the database has taken a statement and does not answer at all.

        Timeouts of the server and of TCP do not see that, and a heartbeat or a fork would wait for ever.
        """
        timer = Timer(SIDE_LIMIT, self.cut, [connection])
        timer.daemon = True
        try:
            try:
                timer.start()
                yield
            finally:
                timer.cancel()
        finally:
            timer.cancel()  # again, where a signal has struck in the first: it would cut what comes next

    def limited(self, connection: BaseDatabaseWrapper, sql: str) -> AbstractContextManager[str]:  # noqa: ARG002
        """What to say in place of ``sql``, where the limits of a side connection are told with statements."""
        return nullcontext(sql)

    def cut(self, connection: BaseDatabaseWrapper) -> None:
        """Break a connection from another thread, so that who waits for its answer gets an error."""

    @abstractmethod
    def shorten_timeouts(self, connection: BaseDatabaseWrapper) -> None:
        """Change the settings of a copied, not yet opened connection so that it gives up soon."""

    def _claim_parameters(self, call: Call, owner: str, lease: int) -> Parameters:
        return self._call_parameters(call) | {"owner": owner, "lease": lease}

    def _call_parameters(self, call: Call) -> Parameters:
        identity = call.identity
        return {
            "digest": self.dialect.uuid(identity.digest),
            "task": call.task,
            "scope": identity.scope,
            "key_text": identity.key_text,
            "task_id": call.task_id,
            "fingerprint": self.dialect.uuid(identity.fingerprint),
            "message": call.message,
            **patterns(call.turn),
            # Again, since PostgreSQL finds a type for each parameter, and these are compared as well.
            "known_task": call.task,
            "known_id": call.task_id,
        }

    def _sweep_parameters(self, bite: int, republish: int, calm: int, until: datetime | None) -> Parameters:
        moment = MOMENT.get_db_prep_value(until, self.connection)
        return {"bite": bite, "republish": republish, "calm": calm, "until": moment}

    def _held(self, held: Sequence[Claim]) -> tuple[str, Parameters]:
        """Name the claims, as rows of digest, token and owner."""
        parameters: Parameters = {}
        for i, claim in enumerate(held):
            digest = self.dialect.uuid(claim.digest)
            parameters |= {f"d{i}": digest, f"t{i}": claim.token, f"o{i}": claim.owner}
        return ", ".join(f"(%(d{i})s, %(t{i})s, %(o{i})s)" for i in range(len(held))), parameters

    def _settle(self, template: str, claim: Claim, **values: object) -> bool:
        named = {"digest": self.dialect.uuid(claim.digest), "token": claim.token, "owner": claim.owner}
        return self._count(template, named | values) == 1

    def _settle_last(self, template: str, claim: Claim, **values: object) -> bool:
        """As ``_settle``, by what may be the last statement of the claim's own transaction."""
        return self._settle(template, claim, **values)

    def _row(self, template: str, parameters: Parameters) -> Row | None:
        with self.connection.cursor() as cursor:
            self._execute(cursor, template, parameters)
            row: Row | None = cursor.fetchone()
        return row

    def _keep_up(self) -> None:
        """Look after what the server keeps for this connection, where it has nothing open."""

    def _first_row(self, template: str, parameters: Parameters) -> Row | None:
        """As ``_row``, by what may be the first statement of a transaction."""
        return self._row(template, parameters)

    def _rows(self, template: str, parameters: Parameters) -> list[Row]:
        with self.connection.cursor() as cursor:
            self._execute(cursor, template, parameters)
            return list(cursor.fetchall())

    def _count(self, template: str, parameters: Parameters) -> int:
        with self.connection.cursor() as cursor:
            self._execute(cursor, template, parameters)
            return int(cursor.rowcount)

    def _execute(self, cursor: Any, template: str, parameters: Parameters) -> None:
        try:
            cursor.execute(self.dialect.sql(template), parameters)
        except DatabaseError as error:
            note_missing_tables(error, self.connection.alias)
            raise
