"""On PostgreSQL, lets the server keep the plans of the statements that a call usually needs.

Most of what such a statement costs is that the server reads and plans its text. A connection that sends one
again and again says it once, by PREPARE, and then names it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2s
from time import monotonic
from typing import Any
from weakref import WeakKeyDictionary

from django.db import Error as DatabaseError
from django.db import OperationalError, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from ...conf import settings
from ..values import Claim
from . import atomic, batches, claiming, statements, steps
from . import postgresql_statements as words
from .carried import END, Carried, with_commit
from .connection import binds_here
from .dialect import OurText
from .reading import Parameters
from .session import is_idle

#: A connection prepares a statement when it sends it for the time of this number: one that lives for a
#: single task would pay for what it never uses.
OFTEN = 5
#: Seconds that a plan is used. It fits the size that its tables had, and a young ledger grows fast.
PLANNED = 5.0

#: What a call needs that is claimed and completed, refused, or reserved; the end of a step and of a record.
USUAL = frozenset(
    {
        claiming.CLAIM_NEW,
        claiming.CLAIM_UNNAMED,
        claiming.CLAIM_RESERVED,
        *words.UNFLUSHED_CLAIMS.values(),
        atomic.ATOMIC_NEW,
        atomic.ATOMIC_UNNAMED,
        atomic.ATOMIC_RESERVED,
        statements.COMPLETE,
        *words.REFUSE.values(),
        words.RESERVE_NEW,
        words.LOCK,
        *map(with_commit, (statements.COMPLETE, steps.KEEP, batches.KEEP_CHANGED)),
    }
)
_NUMBERS = dict.fromkeys(
    ("kept", "lease", "reason", "retention", "sends", "token", "uncount", "wait"), "integer"
)
#: The types of their parameters, where that is no text.
TYPES = {"digest": "uuid", "fingerprint": "uuid", "lock": "bigint", "elapsed": "float8", **_NUMBERS}

_PARAMETER = re.compile(r"%\((\w+)\)s")
#: The server does not know a name, as after DEALLOCATE or DISCARD; or a column has another type since, and
#: much else that it does not support.
_UNKNOWN_NAME, _RESULT_CHANGED = "26000", "0A000"
_GONE = (
    "The server has lost a prepared statement of this connection, by DEALLOCATE ALL or DISCARD ALL, or since"
    " a pooler has changed servers. It is not used again here; where this comes often, set"
    " IDEMPOTENT_TASKS['PREPARED_STATEMENTS'] to False."
)


class StatementGone(OperationalError):
    """The end of a transaction was told by a name that the server does not know: the body runs again."""


@dataclass(frozen=True)
class Form:
    """How a statement is told to the server, and how it is named from then on."""

    name: str
    prepare: str
    execute: OurText


@lru_cache(maxsize=256)
def form_of(text: str) -> Form:
    """The form of a statement with named parameters, and with COMMIT behind it or not."""
    statement, end, _ = text.partition(END)
    names = list(dict.fromkeys(_PARAMETER.findall(statement)))
    numbered = _PARAMETER.sub(lambda found: f"${names.index(found[1]) + 1}", statement)
    name = f"idem_{blake2s(text.encode(), digest_size=8).hexdigest()}"
    types = ", ".join(TYPES.get(each, "text") for each in names)
    values = ", ".join(f"%({each})s" for each in names)
    prepare, execute = f"PREPARE {name} ({types}) AS {numbered}", f"EXECUTE {name} ({values}){end}"
    return Form(name, prepare, OurText(execute))


class Kept:
    """What one connection of the driver has prepared, and how often it has sent what it has not.

    The driver is told, not Django: no wrapper of the project's sees it, and no test counts it.
    """

    def __init__(self, connection: Any) -> None:
        self.raw: Any = connection.connection
        self.is_used = _may_prepare(connection)
        self._sent: Counter[str] = Counter()
        self._names: set[str] = set()
        self._wanted: list[Form] = []
        self._planned = monotonic()
        self._is_asked = False

    def has(self, form: Form) -> bool:
        """Whether the server has the statement."""
        return form.name in self._names

    def count(self, form: Form) -> None:
        """Want a statement that is sent often."""
        self._sent[form.name] += 1
        if self._sent[form.name] == OFTEN:
            self._wanted.append(form)

    def keep_up(self, connection: Any) -> None:
        """Prepare what is wanted, and have plans made anew; to be called where the server has nothing open.

        Where that fails the statement that comes next does without. Raises what has ended the connection.
        """
        is_old = self._names and monotonic() - self._planned > PLANNED
        if not (is_old or self._wanted):
            return
        try:
            with _beside(self.raw), connection.wrap_database_errors, self.raw.cursor() as cursor:
                self._tell(cursor)
        except DatabaseError:
            self.stop()
            if self.raw.closed:
                raise
        except BaseException:  # a signal, which leaves open what the server has
            self.stop()
            raise

    def _tell(self, cursor: Any) -> None:
        if not self._is_asked and not _is_direct(cursor):
            self.stop()
            return
        self._is_asked = True
        for form in self._wanted:
            cursor.execute(form.prepare, {})
            self._names.add(form.name)
        self._wanted.clear()
        cursor.execute("DISCARD PLANS")
        self._planned = monotonic()

    def stop(self) -> None:
        """Send all statements whole from now on."""
        self.is_used = False


@contextmanager
def _beside(raw: Any) -> Iterator[None]:
    """Inside, psycopg begins no transaction: in the one that comes next no isolation could be set then."""
    before = raw.autocommit
    try:
        try:
            raw._autocommit = True  # noqa: SLF001  as in `Begun`
            yield
        finally:
            raw._autocommit = before  # noqa: SLF001
    finally:
        raw._autocommit = before  # noqa: SLF001  again, where a signal has struck in the first


_KEPT: WeakKeyDictionary[BaseDatabaseWrapper, Kept] = WeakKeyDictionary()


def _kept_by(connection: Any) -> Kept | None:
    """What the connection keeps, or None where it can keep nothing."""
    kept = _KEPT.get(connection)
    if kept is None or kept.raw is not connection.connection:
        kept = _KEPT[connection] = Kept(connection)
    return kept if kept.is_used else None


def _may_prepare(connection: Any) -> bool:
    """Whether it is a connection of the project's to which statements may be told once."""
    is_projects = connection.alias in connections and connections[connection.alias] is connection
    if not (settings().prepared_statements and is_projects and binds_here(connection)):
        return False
    given, raw = connection.settings_dict, connection.connection
    # What Django asks for where a pooler gives each transaction another server; a pool here may reset a
    # connection that it gets back; and psycopg says DEALLOCATE ALL where it prepares by itself.
    is_shared = given.get("DISABLE_SERVER_SIDE_CURSORS") or given["OPTIONS"].get("pool")
    is_drivers = isinstance(raw, connection.Database.Connection)
    return is_drivers and not is_shared and raw.prepare_threshold is None


def _is_direct(cursor: Any) -> bool:
    """Whether the server is behind the connection: a pooler, which names itself, may change servers."""
    cursor.execute("SELECT pg_backend_pid()")
    ((pid,),) = cursor.fetchall()
    return bool(pid == cursor.connection.pgconn.backend_pid)


def begin_anew(connection: Any) -> None:
    """Forget what was said on a connection while it was opened, as by the project's own receivers."""
    _KEPT.pop(connection, None)


def forget(connection: Any) -> None:
    """Send whole statements from now on: a body has altered the session, and may have taken names away."""
    kept = _kept_by(connection)
    if kept is not None:
        kept.stop()


class Prepared(Carried):
    """Adds statements that the server has prepared.

    They are sent where the whole text can be sent in their place: with nothing open on the server, or with
    the COMMIT of a task's own transaction, which is rolled back then.
    """

    def _execute(self, cursor: Any, template: str, parameters: Parameters) -> None:
        form = self._form(template)
        if form is None:
            super()._execute(cursor, template, parameters)
            return
        try:
            super()._execute(cursor, form.execute, parameters)
        except DatabaseError as error:
            self._stop_if_gone(form, error)
            super()._execute(cursor, template, parameters)

    def _count_again(self, template: str, claim: Claim, **own: str) -> int:
        form = self._form(template)
        if form is None:
            return super()._count_again(template, claim, **own)
        try:
            return super()._count_again(form.execute, claim, **own)
        except DatabaseError as error:
            self._stop_if_gone(form, error)
            return super()._count_again(template, claim, **own)

    def _form(self, template: str) -> Form | None:
        """How the statement is named, where the server has it and it may be named here."""
        kept = _kept_by(self.connection) if template in USUAL else None
        if kept is None:
            return None
        is_alone = is_idle(kept.raw)
        if not (is_alone or template.endswith(END)):
            return None
        form = form_of(self.dialect.sql(template))
        if not kept.has(form):
            kept.count(form)
        if is_alone:
            kept.keep_up(self.connection)
        return form if kept.is_used and kept.has(form) else None

    def _keep_up(self) -> None:
        kept = _kept_by(self.connection)
        if kept is not None:
            kept.keep_up(self.connection)

    def _stop_if_gone(self, form: Form, error: DatabaseError) -> None:
        """Stop where the server has no plan by that name any more; raise what the whole text does not mend.

        What came with a COMMIT is rolled back with all before it. A trigger of the project's may raise the
        same codes, also as that COMMIT is refused.
        """
        state = getattr(error.__cause__, "sqlstate", None)
        is_unknown = state == _UNKNOWN_NAME and form.name in str(error)
        if is_unknown or state == _RESULT_CHANGED:
            forget(self.connection)
        if form.execute.endswith(END):
            if is_unknown:
                raise StatementGone(_GONE) from error
            raise error
        if not (is_unknown or state == _RESULT_CHANGED):
            raise error
        raw: Any = self.connection.connection
        if not is_idle(raw):
            raw.rollback()  # not by a cursor: a wrapper of the project's may say something before it
