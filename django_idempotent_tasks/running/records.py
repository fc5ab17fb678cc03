"""Gives the records of a chunk to its body: the writes for a record and its outcome are one transaction."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import Any, NoReturn

from celery.exceptions import SoftTimeLimitExceeded
from django.db import Error as DatabaseError
from django.db import InterfaceError, OperationalError

from ..conf import settings
from ..exceptions import LeaseLost, OuterTransaction, RecordsLeft
from ..ledger import batches
from ..ledger.batch_values import NO_OUTCOME, OK, OUTCOMES, RETRYABLE, Chunk, RecordFailure
from ..ledger.encoding import describe, encode_result
from ..ledger.failures import failure_of, named
from ..ledger.stores.connection import is_open
from ..ledger.stores.session import Session
from ..states import Category, Reason
from .categories import CERTAIN, category_of_error, category_shown, is_thrown
from .conflicts import conflict_behind
from .context import BatchPart
from .endings import struck_by
from .leftovers import let_go
from .outcomes import LEFT, Outcomes, index_of, places_of, records_of
from .record import Keeper, Record, as_error, category_of, ends_the_attempt
from .retries import retry_after

logger = logging.getLogger("django_idempotent_tasks")

#: Seconds until an outcome is offered again to a database that is away, doubled each time, at most the last.
PACE, LONGEST_PACE = 0.1, 2.0


class Records(Keeper):
    """The records of one attempt at a chunk."""

    def __init__(self, attempt: Any) -> None:
        self._attempt = attempt
        self._task = attempt.task.name
        self._store = attempt.ledger.store
        self._outcomes = Outcomes(self._store, attempt.claim, self._lost)
        #: The records as they arrived, of which a body may have changed what it was given.
        self._submitted: Sequence[Any] | None = None
        #: Whether the body has asked for its records; and whether it has, or has given outcomes.
        self._is_asked = self._is_used = False
        #: The record whose block runs now.
        self._running: Record | None = None
        self._misuse: BaseException | None = None
        #: Of the records that are to be tried again: the last error, and the longest wait that one asked for.
        self._last: BaseException | None = None
        self._wait = 0.0

    # -- what a body may ask and say --

    def part(self) -> BatchPart | None:
        """What ``.batch`` is."""
        chunk = self._outcomes.chunk()
        return None if chunk is None else BatchPart(chunk.batch, index_of(chunk, 0), chunk.size)

    def of(self, values: Iterable[Any]) -> Iterator[Record]:
        """What ``.records()`` gives."""
        self._check_place("records()")
        if self._is_asked:
            self._refuse("called records() twice in one attempt: call it once, and keep what it gives.")
        chunk, values = self._own("records()"), list(values)
        if len(values) != chunk.size:
            given = f"{len(values)} records, but its chunk has {chunk.size}"
            self._refuse(f"called records() with {given}: give the argument as it came.")
        self._is_asked = self._is_used = True
        if self._attempt.request.is_eager:  # the body may change them, and no message has them
            self._submitted = deepcopy(records_of(self._attempt.claim.call, self._attempt.request))
        return self._left(values)

    def _left(self, values: Sequence[Any]) -> Iterator[Record]:
        for place, value in enumerate(values):
            chunk = self._own("records()")  # each time: what was not sure is read again
            if chunk.outcomes[place] in LEFT:
                yield Record(self, place, index_of(chunk, place), value)

    def note(self, index: int | Iterable[int], outcome: str | Category, error: object = None) -> None:
        """What ``.record()`` does."""
        category = category_of(outcome)
        self._check_place("record()")
        chunk = self._own("record()")
        places = places_of(chunk, [index] if isinstance(index, int) else [*index])
        self._is_used = True
        is_callers = is_open(self._store.connection)
        with self._store.together():
            chunk = self._outcomes.hold()
            if category is None:
                chunk = self._outcomes.write(chunk, dict.fromkeys(places, OK))
            else:
                chunk = self._keep_failures(chunk, places, category, as_error(category, error))
        if not is_callers:  # else the transaction may still be rolled back
            self._outcomes.are_those_of(chunk)

    @contextmanager
    def one(self, record: Record) -> Iterator[None]:
        """The block of a record: what is raised there is the record's, unless it ends the whole attempt."""
        chunk = self._begin(record)
        try:
            with self._attempt.transaction(self._lost):
                yield
                if record.decided is not None:
                    raise record.decided[1]  # noqa: TRY301  so that its writes are rolled back
                chunk = self._outcomes.write(chunk, {record.place: OK})
            self._outcomes.are_those_of(chunk)
        except BaseException as error:  # noqa: BLE001  a hook of the commit, a signal, or the body's own
            self._running = None
            self._failed(record, struck_by(error))
        finally:
            self._running = None

    def reject(self, record: Record) -> None:
        """Raise inside the record's block; elsewhere keep the outcome at once."""
        if record.decided is None:
            return
        if self._running is record:
            raise record.decided[1]
        self._check_place("reject()", commits=True)
        self._check_is_left(record, "rejected")
        self._settle(record, *record.decided)

    # -- an error --

    def _failed(self, record: Record, error: BaseException) -> None:
        if error is self._misuse or ends_the_attempt(error):
            raise error
        category, cause = record.decided or (self._category(error), error)
        self._settle(record, category, cause)

    def _category(self, error: BaseException) -> Category:
        attempt = self._attempt
        category = category_of_error(error, attempt.ledger.policy)
        if category is None and (attempt.retries_by_itself(error) or conflict_behind(error) is not None):
            category = Category.RETRYABLE
        is_certain = category in CERTAIN
        if category is None and is_thrown(error, attempt.ledger.policy):
            category = Category.EXPECTED
        category = category or category_shown(error, Reason.RETRIES_USED_UP)
        if attempt.doubt and not (is_certain or category is Category.FATAL):
            return Category.MANUAL_REVIEW  # its effect outside may have happened
        return category

    def _settle(self, record: Record, category: Category, error: BaseException) -> None:
        """Write the outcome of a record that failed, again while the database is away."""
        # With a new hold on the chunk: the record's own commit may have succeeded unanswered.
        deadline, pause = time.monotonic() + self._attempt.claim.lease, PACE
        self._outcomes.are_unsure()
        while True:
            try:
                with self._store.together():
                    chunk = self._outcomes.hold()
                    is_done = chunk.outcomes[record.place] == OK
                    if not is_done:
                        chunk = self._keep_failures(chunk, [record.place], category, error)
            except (OperationalError, InterfaceError):
                if self._attempt.in_caller_transaction or time.monotonic() > deadline:
                    raise
                time.sleep(pause)
                pause = min(pause * 2, LONGEST_PACE)
                let_go(self._store.connection, Session.UNREADY)
                continue
            break
        self._outcomes.are_those_of(chunk)
        if is_done:
            words = "%s: the record %s is committed; only the answer was lost (%r)"
            logger.warning(words, self._task, record.index, error)

    def _keep_failures(
        self, chunk: Chunk, places: Sequence[int], category: Category, error: BaseException
    ) -> Chunk:
        task, request = self._attempt.task, self._attempt.request
        if category is Category.RETRYABLE:
            self._last = error
            self._wait = max(self._wait, retry_after(error, now=task.app.now()))
        failure = failure_of(error, task=task.name, category=category, worker=request.hostname)
        changed = self._outcomes.write(chunk, dict.fromkeys(places, OUTCOMES[category]))
        for place in places:
            kept = RecordFailure(
                index=index_of(chunk, place),
                place=chunk.place,
                category=category,
                attempt=self._attempt.claim.grant.attempts,
                error=failure.error,
                description=failure.description,
                signature=failure.signature,
                value=self._text_of(place),
            )
            self._store.keep_record(chunk.batch, kept)
        return changed

    def _text_of(self, place: int) -> str | None:
        """The JSON of a record, from which a redrive makes a new chunk."""
        if self._submitted is None:
            self._submitted = records_of(self._attempt.claim.call, self._attempt.request)
        if place >= len(self._submitted):
            return None
        value = self._submitted[place]
        return "null" if value is None else encode_result(value, limit=settings().max_payload)[0]

    # -- the end of the body --

    def check_done(self, verb: str) -> None:
        """Refuse what completes the key while records are to be done."""
        self.check_none_runs(verb)
        if not self._is_used:
            return
        left = sum(outcome in LEFT for outcome in self._own(verb).outcomes)
        if left:
            self._refuse(f"called {verb} while {left} of its records are to be done: nobody would do them.")

    def check_end(self) -> None:
        """Raise what it means for the key that a body has ended while records are to be done."""
        if not self._is_used:
            return
        outcomes = self._own("records()").outcomes
        missing, again = outcomes.count(NO_OUTCOME), outcomes.count(RETRYABLE)
        if missing:
            msg = (
                f"{self._task} ended while {missing} of {len(outcomes)} records have no outcome. Enter `with"
                " record:` for each that records() gives, or call record() or reject(). Then redrive it."
            )
            raise RuntimeError(msg)
        if again:
            error = self._last
            last = "" if error is None else f" The last error: {named(error)}: {describe(error)[:300]}"
            msg = f"{again} of {len(outcomes)} records are to be tried again.{last}"
            raise RecordsLeft(msg, retry_after=self._wait) from error

    def follow(self) -> None:
        """Let the batch know of its chunk's end; where this fails the sweeper does so, seconds later."""
        end, batch = self._attempt.settlement, self._outcomes.batch
        if batch is None or not end.has_ended or end.request.is_eager:
            return
        try:
            calls = batches.follow_one(self._store, end.claim, batch, is_completed=end.has_completed)
            batches.publish(end.task.app, self._store, calls)
        except (DatabaseError, SoftTimeLimitExceeded) as error:
            logger.warning("%s: the sweeper tells its batch of the end (%r)", self._task, error)
            # For whoever is next on it, such as Celery with the result: it may be broken, or in use still.
            let_go(self._store.connection, Session.UNREADY)

    # -- the place --

    def check_none_runs(self, what: str) -> None:
        """Refuse what belongs between the blocks of two records."""
        if self._running is not None:
            self._refuse(f"used {what} inside the block of record {self._running.index}: use it outside.")

    def _begin(self, record: Record) -> Chunk:
        self._check_place("`with record:`", commits=True)
        chunk = self._check_is_left(record, "entered")
        self._running = record
        return chunk

    def _check_is_left(self, record: Record, what: str) -> Chunk:
        chunk = self._own("records()")
        if chunk.outcomes[record.place] not in LEFT:
            self._refuse(f"{what} the record {record.index} once more: it has an outcome already.")
        return chunk

    def _check_place(self, what: str, *, commits: bool = False) -> None:
        attempt = self._attempt
        if attempt.completed:
            self._refuse(f"used {what} after complete(): its key is completed already.")
        self.check_none_runs(what)
        attempt.steps.check_none_runs(what)
        if attempt.tells_lost():
            raise self._lost()
        if not commits or attempt.in_caller_transaction:
            return
        if self._store.connection.in_atomic_block or attempt.watch.is_by_hand():
            raise OuterTransaction(
                f"{self._task} used {what} inside a transaction, whose rollback would undo the outcome."
                " Use it outside: each record has its own transaction. To write many in one, call record()."
            )

    def _own(self, what: str) -> Chunk:
        chunk = self._outcomes.chunk()
        if chunk is None:
            self._refuse(
                f"used {what}, but this call is no chunk of a batch: no outcome could be kept. Send the"
                " records with submit_batch(), or call the task directly."
            )
        return chunk

    def _refuse(self, what: str) -> NoReturn:
        self._misuse = RuntimeError(f"{self._task} {what}")
        raise self._misuse

    def _lost(self) -> LeaseLost:
        label = f"{self._task} {self._attempt.claim.call.identity.key_text!r}"
        return LeaseLost(f"{label}: another attempt has taken over; the outcome of a record was refused.")
