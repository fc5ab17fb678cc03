"""Helpers for promises: keys, claims, moved clocks, and the rows themselves."""
# ruff: noqa: S101  promises are asserted

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime, timedelta
from os import urandom
from typing import Any
from uuid import UUID, uuid4

from django.db.models.functions import Now

from ...identity.key import Identity
from ...ledger.stores import LedgerStore, clock
from ...ledger.values import Call, Claim, Entry, Failure, Grant
from ...models import IdempotencyKey
from ...states import Category, Reason, State

#: Seconds. Far enough apart that a slow machine never mistakes one for another.
LEASE = 60
RETENTION = 1000
WINDOW = 5000
REPUBLISH = 300

MESSAGE = '{"v": 1, "args": [7], "kwargs": {}, "options": {}}'


def a_failure(
    error: str = "builtins.ValueError",
    description: str = "no",
    *,
    category: Category = Category.RETRYABLE,
    signature: str = "0123456789abcdef",
    traceback: str = "Traceback ...",
) -> Failure:
    """What is recorded of a failed attempt."""
    return Failure(error, description, traceback, signature, category, "w@host")


#: What the key's own row keeps of that.
RECORDED = '{"error": "builtins.ValueError", "message": "no"}'


class Bench:
    """The store under test and the words of the promises."""

    #: False where one writer locks the whole database, so that nobody can pass over a locked row.
    has_row_locks = True

    #: False where a key that has no row yet cannot be locked: two may hold it, until one of them writes.
    locks_missing_rows = True

    def store(self) -> LedgerStore:
        """The store under test, on this thread's connection ``django.db.connections[alias]``."""
        raise NotImplementedError

    def second_store(self) -> AbstractContextManager[LedgerStore]:
        """The same store on another connection, which the calling thread may use."""
        return self.store().side_connection()

    # -- making things --

    def call(self, task_id: str = "A", *, of: Call | None = None, **changes: Any) -> Call:
        """A call of a new key, or another call (of) a known one."""
        # All bits at random, as of a real key: a database's own type may refuse what is no version 4.
        digest = of.identity.digest if of else UUID(bytes=urandom(16))
        identity = Identity(
            digest,
            scope=changes.pop("scope", None),
            key_text=changes.pop("key_text", "7"),
            fingerprint=changes.pop("fingerprint", None),
        )
        message = changes.pop("message", MESSAGE)
        return Call(identity, task="shop.charge", task_id=task_id, message=message, **changes)

    def claimed(self, call: Call | None = None, *, lease: int = LEASE) -> Claim:
        """A new key, claimed."""
        call = call or self.call()
        owner = new_owner()
        return self.granted(call, owner, self.store().claim_new(call, owner=owner, lease=lease), lease)

    def reserved(self, call: Call | None = None, *, wait: int = REPUBLISH, sends: int = 0) -> Call:
        """A new key, reserved and committed."""
        call = call or self.call()
        token = self.store().reserve_new(call, wait=wait, sends=sends)
        assert token is not None, "the reservation was refused"
        return call

    def started(self, call: Call, *, lease: int = LEASE) -> Claim:
        """The key that this call reserved, claimed by it."""
        owner = new_owner()
        grant = self.store().claim_reserved(call, owner=owner, lease=lease)
        return self.granted(call, owner, grant, lease)

    def taken_over(self, call: Call, *, lease: int = LEASE) -> Claim:
        """The open key of ``call``, claimed within its generation."""
        owner = new_owner()
        grant = self.store().claim_open(call, owner=owner, lease=lease, seen=self.seen(call))
        return self.granted(call, owner, grant, lease)

    def claimed_anew(self, call: Call, *, window: int = WINDOW) -> Claim:
        """The finished key of ``call``, claimed for new work."""
        owner = new_owner()
        grant = self.try_anew(call, owner=owner, window=window)
        return self.granted(call, owner, grant, LEASE)

    def try_anew(
        self, call: Call, *, seen: Entry | None = None, owner: str = "w:9:late", window: int = WINDOW
    ) -> Grant | None:
        """Try to claim the finished key of ``call``, judged on ``seen`` or on the row as it is now."""
        seen = seen or self.seen(call)
        return self.store().claim_finished(call, owner=owner, lease=LEASE, seen=seen, window=window)

    def try_reserve_anew(
        self, call: Call, *, seen: Entry | None = None, sends: int = 0, window: int = WINDOW
    ) -> int | None:
        """Try to reserve the finished key of ``call``, judged on ``seen`` or on the row as it is now."""
        seen = seen or self.seen(call)
        return self.store().reserve_finished(call, wait=REPUBLISH, sends=sends, seen=seen, window=window)

    @staticmethod
    def granted(call: Call, owner: str, grant: Grant | None, lease: int) -> Claim:
        """The claim of a grant; fails without one."""
        assert grant is not None, "the claim was not granted"
        return Claim(call, owner, grant, lease)

    def completed(
        self, claim: Claim | None = None, *, result: str | None = "1", retention: int = RETENTION
    ) -> Claim:
        """A claim that ended as SUCCEEDED."""
        claim = claim or self.claimed()
        assert self.complete(claim, result=result, retention=retention), "the completion was refused"
        return claim

    def failed(self, claim: Claim) -> Claim:
        """A claim whose retries were used up."""
        assert self.fail(claim), "the failure was refused"
        return claim

    def cancelled(self, claim: Claim) -> Claim:
        """A claim that was cancelled."""
        assert self.store().cancel(claim.digest, window=WINDOW), "the cancel was refused"
        return claim

    def in_state(self, state: State, call: Call | None = None, **columns: Any) -> Claim:
        """A claimed key whose row was then given this state and these columns."""
        claim = self.claimed(call)
        self.in_columns(claim, state=state, **columns)
        return claim

    def in_columns(self, key: Call | Claim, **columns: Any) -> None:
        """Write columns of a row directly, without a verb."""
        IdempotencyKey.objects.using(self.alias).filter(digest=_digest(key)).update(**columns)

    # -- settling, with the arguments that matter --

    def complete(
        self,
        claim: Claim,
        *,
        result: str | None = "1",
        reason: Reason = Reason.DONE,
        retention: int = RETENTION,
        window: int = WINDOW,
    ) -> bool:
        """Whether the completion was accepted."""
        return self.store().complete(claim, result=result, reason=reason, retention=retention, window=window)

    def retry(self, claim: Claim, *, message: str | None = None, wait: int = 0) -> bool:
        """Whether the retry was accepted."""
        return self.store().retry(
            claim, message=message, reason=Reason.RETRY_ASKED, wait=wait, republish=REPUBLISH
        )

    def fail(
        self,
        claim: Claim,
        *,
        state: State = State.FAILED,
        reason: Reason = Reason.RETRIES_USED_UP,
        failure: Failure | None = None,
    ) -> bool:
        """Whether the failure was accepted."""
        return self.store().fail(
            claim,
            state=state,
            reason=reason,
            failure=failure or a_failure(),
            retention=RETENTION,
        )

    # -- looking --

    @property
    def alias(self) -> str:
        """The database's alias."""
        return self.store().connection.alias

    def seen(self, call: Call) -> Entry:
        """The row as a claim reads it."""
        entry = self.store().read(call.identity.digest, task_id=call.task_id)
        assert entry is not None, "the key has no row"
        return entry

    def row(self, key: Call | Claim | UUID) -> IdempotencyKey:
        """The row with all its columns."""
        return IdempotencyKey.objects.using(self.alias).get(digest=_digest(key))

    def columns(self, key: Call | Claim | UUID) -> dict[str, Any] | None:
        """All columns of the row, or None without one."""
        rows = IdempotencyKey.objects.using(self.alias).filter(digest=_digest(key))
        found = rows.values().first()
        return None if found is None else {**found}

    @contextmanager
    def untouched(self, *keys: Call | Claim) -> Iterator[None]:
        """Nothing inside may change the rows of these keys."""
        before = [self.columns(key) for key in keys]
        yield
        assert [self.columns(key) for key in keys] == before, "a row was changed"

    def now(self, key: Call | Claim) -> datetime:
        """The database's clock, moved as the store sees it; the key must have a row."""
        rows = IdempotencyKey.objects.using(self.alias).filter(digest=_digest(key))
        moment: datetime = rows.values_list(Now(), flat=True).get()
        return moment + timedelta(seconds=clock.offset())

    @contextmanager
    def sets(self, key: Call | Claim, **seconds: int) -> Iterator[None]:
        """What happens inside must set these time columns so many seconds after its statement."""
        began = self.now(key)
        yield
        row, ended = self.row(key), self.now(key)
        for column, after in seconds.items():
            moment = getattr(row, column)
            assert moment is not None, f"{column} is empty"
            statement = moment - timedelta(seconds=after)
            # A store may note times a microsecond more exactly than Django's Now() tells them: SQLite's does.
            assert began <= statement <= ended + timedelta(microseconds=1), (
                f"{column} is not {after} seconds after its statement"
            )


def new_owner() -> str:
    """The name of one claim."""
    return f"w:1:{uuid4().hex[:8]}"


def _digest(key: Call | Claim | UUID) -> UUID:
    match key:
        case Call():
            return key.identity.digest
        case Claim():
            return key.digest
        case _:
            return key
