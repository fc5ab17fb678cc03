"""What the SQL stores share: parameters in, frozen values out; the statements are the dialect's."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import Timer
from typing import Any
from uuid import UUID

from django.db import Error as DatabaseError
from django.db.backends.base.base import BaseDatabaseWrapper

from ..outcomes import Answer, Call, Claim, Due, Entry, Grant, Identity
from ..states import Reason, State
from . import statements
from .absent import note_missing_tables
from .base import LedgerStore
from .dialect import Dialect

#: Seconds until a statement on a side connection is given up; above the server's own timeout there.
SIDE_LIMIT = 3.0

Row = tuple[Any, ...]
Parameters = dict[str, Any]


class SqlStore(LedgerStore):
    """A ledger behind one Django connection: raw statements through its cursor, no ORM on the hot path."""

    dialect: Dialect

    def claim_new(self, call: Call, *, owner: str, lease: int) -> Grant | None:
        template = statements.CLAIM_UNNAMED if call.named_here else statements.CLAIM_NEW
        return to_grant(self._row(template, self._claim_parameters(call, owner, lease)))

    def named(self, task: str, *, task_id: str) -> Identity | None:
        row = self._row(statements.NAMED, {"known_task": task, "known_id": task_id})
        if row is None:
            return None
        digest, scope, key_text, fingerprint = row
        return Identity(UUID(str(digest)), scope, key_text, _uuid(fingerprint))

    def read(self, digest: UUID, *, task_id: str) -> Entry | None:
        row = self._row(statements.READ, {"digest": self.dialect.uuid(digest), "task_id": task_id})
        return None if row is None else _entry(row)

    def claim_open(
        self, call: Call, *, owner: str, lease: int, seen: Entry, counted: bool = False
    ) -> Grant | None:
        parameters = self._claim_parameters(call, owner, lease) | seen_as(seen) | {"uncount": int(counted)}
        return to_grant(self._row(statements.CLAIM_OPEN, parameters))

    def claim_finished(self, call: Call, *, owner: str, lease: int, seen: Entry, window: int) -> Grant | None:
        parameters = self._claim_parameters(call, owner, lease) | seen_as(seen) | {"window": window}
        return to_grant(self._claim_finished(parameters))

    def claim_reserved(self, call: Call, *, owner: str, lease: int) -> Grant | None:
        return to_grant(self._row(statements.CLAIM_RESERVED, self._claim_parameters(call, owner, lease)))

    def reserve_new(self, call: Call, *, wait: int, sends: int) -> int | None:
        parameters = self._call_parameters(call) | {"wait": wait, "sends": sends}
        return _token(self._row(statements.RESERVE_NEW, parameters))

    def reserve_finished(self, call: Call, *, wait: int, sends: int, seen: Entry, window: int) -> int | None:
        values = {"wait": wait, "sends": sends, "window": window}
        return _token(self._reserve_finished(self._call_parameters(call) | seen_as(seen) | values))

    @abstractmethod
    def _reserve_finished(self, parameters: Parameters) -> Row | None:
        """Remember the replaced call and reserve the key, in one transaction."""

    @abstractmethod
    def _claim_finished(self, parameters: Parameters) -> Row | None:
        """Remember the replaced call and take the key, in one transaction."""

    def answer(self, digest: UUID, *, task_id: str) -> Answer | None:
        row = self._row(statements.ANSWER, {"digest": self.dialect.uuid(digest), "task_id": task_id})
        return None if row is None else Answer(State(row[0]), Reason(row[1]), row[2])

    def progress(self, claim: Claim, *, text: str) -> bool:
        return self._settle(statements.PROGRESS, claim, progress=text)

    def complete(
        self, claim: Claim, *, result: str | None, reason: Reason, retention: int, window: int
    ) -> bool:
        kept = max(retention, window)
        return self._settle(
            statements.COMPLETE, claim, result=result, reason=int(reason), retention=retention, kept=kept
        )

    def sent(self, digests: Sequence[UUID], *, token: int, retention: int) -> int:
        listed = {f"digest_{number}": self.dialect.uuid(digest) for number, digest in enumerate(digests)}
        names = ", ".join(f"%({name})s" for name in listed)
        template = statements.SENT.replace("DIGESTS", names)
        return self._count(template, listed | {"token": token, "retention": retention}) if listed else 0

    def send_failed(self, digest: UUID, *, token: int) -> None:
        self._count(statements.SEND_FAILED, {"digest": self.dialect.uuid(digest), "token": token})

    def release(self, digest: UUID, *, token: int) -> bool:
        named = {"digest": self.dialect.uuid(digest), "token": token}
        return is_token(token) and self._count(statements.RELEASE, named) == 1

    def prune_answered(self, *, bite: int) -> int:
        return self._count(statements.PRUNE_ANSWERED, {"bite": bite})

    def prune_duplicates(self, *, keep: int, bite: int) -> int:
        return self._count(statements.PRUNE_DUPLICATES, {"keep": keep, "bite": bite})

    def record_duplicate(self, call: Call, *, place: str, reason: str) -> None:
        self._count(
            self._record_duplicate_statement(),
            {
                "digest": self.dialect.uuid(call.identity.digest),
                "scope": call.identity.scope,
                "task_id": call.task_id,
                "place": place,
                "reason": reason,
            },
        )

    def _record_duplicate_statement(self) -> str:
        return statements.RECORD_DUPLICATE

    def lead(self, name: str, *, holder: str, lease: int) -> bool:
        return self._row(statements.LEAD, {"name": name, "holder": holder, "lease": lease}) is not None

    def resign(self, name: str, *, holder: str) -> None:
        self._count(statements.RESIGN, {"name": name, "holder": holder})

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
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

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
            # Again, since PostgreSQL finds a type for each parameter, and these are compared as well.
            "known_task": call.task,
            "known_id": call.task_id,
        }

    def _settle(self, template: str, claim: Claim, **values: object) -> bool:
        named = {"digest": self.dialect.uuid(claim.digest), "token": claim.token, "owner": claim.owner}
        return self._count(template, named | values) == 1

    def _row(self, template: str, parameters: Parameters) -> Row | None:
        with self.connection.cursor() as cursor:
            self._execute(cursor, template, parameters)
            row: Row | None = cursor.fetchone()
        return row

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


def seen_as(entry: Entry) -> Parameters:
    """What a compare-and-set compares."""
    return {"seen": entry.token, "seen_state": int(entry.state)}


def is_token(token: int) -> bool:
    """Whether a key can have it; drivers raise errors of their own for what no column holds."""
    return 0 <= token < 2**31


def _token(row: Row | None) -> int | None:
    return None if row is None else int(row[0])


def _uuid(value: object) -> UUID | None:
    return None if value is None else UUID(str(value))


def to_grant(row: Row | None) -> Grant | None:
    """What a claim's RETURNING grants."""
    if row is None:
        return None
    token, generation, attempts, crashes, reason = row
    return Grant(token, generation, attempts, crashes, Reason(reason))


def _entry(row: Row) -> Entry:
    state, reason, token, generation, attempts, crashes, task, scope = row[:8]
    task_id, runner, owner, fingerprint, result = row[8:13]
    is_open, opens_in, was_answered, no_message, is_discarded, in_external = row[13:]
    is_doubted = state == State.RUNNING and bool(in_external)
    return Entry(
        state=State(state),
        reason=Reason(reason),
        token=token,
        generation=generation,
        attempts=attempts,
        crashes=crashes,
        task=task,
        scope=scope,
        task_id=task_id,
        runner_task_id=runner,
        owner=owner,
        fingerprint=_uuid(fingerprint),
        result=result,
        is_open=None if is_open is None else bool(is_open) and not is_doubted,
        opens_in=None if opens_in is None else float(opens_in),
        was_answered=bool(was_answered),
        no_message=bool(no_message),
        is_discarded=bool(is_discarded),
        in_external=bool(in_external),
    )


def due(row: Row) -> Due:
    """One swept row; it is to be published when a claim is allowed now and there is something to send."""
    digest, token, state, crashes, task, message, is_open, sends = row
    sendable = state in {State.PENDING, State.RETRY} and message is not None
    publish = sendable and (is_open is None or bool(is_open))
    return Due(UUID(str(digest)), token, State(state), crashes, task, message, publish, sends)
