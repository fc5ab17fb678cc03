"""Leased runs: the claim commits first, heartbeats keep the lease, the completion is fenced."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any, NoReturn

from celery.exceptions import Ignore, Retry, SoftTimeLimitExceeded
from django.db import Error as DatabaseError
from django.db import transaction

from . import heartbeat, signals
from .attempt import Attempt, Handle
from .context import Done, entered
from .delivery import Delivery
from .endings import cause_of, struck_by
from .exceptions import LeaseLost, ManualReview, OuterTransaction
from .hooks import mark_answered
from .judgement import Judgement
from .ledger import Claimed, Ledger, Outcome
from .leftovers import Watch, refuse
from .outcomes import Answer, Call, Claim, Grant
from .progress import Progress, encode_progress
from .raised import is_a, is_shutdown
from .replay import check_replacement, replacement_text, replay
from .reschedule import come_back, give_back
from .settlement import Settlement
from .states import State
from .succession import Heir, succeeded_by
from .verdict import Step

logger = logging.getLogger("django_idempotent_tasks")


class LeasedHandle(Handle):
    """What a leased body sees."""

    _attempt: LeasedAttempt

    @property
    def lost(self) -> bool:  # type: ignore[override]  # a constant elsewhere
        """Whether another one has the key, or may have it: the lease is over and the ledger does not answer.

        Never false again: an attempt that was told so cannot complete, and runs again where it could have.
        """
        return self._attempt.tells_lost()

    def external(self) -> AbstractContextManager[None]:
        """Around an effect outside the database."""
        return self._attempt.outside()

    def complete(self) -> AbstractContextManager[Done]:
        """A transaction whose commit also completes the key."""
        return self._attempt.completing()

    def progress(self, done: float, total: float | None = None, note: str = "") -> None:
        """How far the body is."""
        self._attempt.tell(encode_progress(done, total, note))


class LeasedAttempt(Attempt):
    """The run of a claim that others see, under a lease."""

    def __init__(
        self, task: Any, ledger: Ledger, claim: Claim, watch: Watch, *, in_caller_transaction: bool
    ) -> None:
        settlement = Settlement(task, ledger, claim, in_caller_transaction=in_caller_transaction)
        super().__init__(task, ledger, claim, settlement, in_caller_transaction=in_caller_transaction)
        self.handle = LeasedHandle(self)
        self.watch = watch
        self.lost = self.doubted = self.gave_up = False
        self.progress = Progress()

    def run(self, args: Any, kwargs: Any) -> Any:
        """Run the body and settle the claim; returns the result or raises what Celery has to see."""
        with self._held():
            try:
                if self.claim.grant.crashes >= self.ledger.policy.max_crashes:
                    self.bury()
                try:
                    with self._told(), entered(self), self._savepoint():
                        value = self._body(args, kwargs)
                except BaseException as error:  # noqa: BLE001  whatever ends a body must settle its claim
                    return self.ended_by(error)
                return self._returned(value)
            except LeaseLost:
                return self._superseded()

    def _body(self, args: Any, kwargs: Any) -> Any:
        try:
            return self._watched(args, kwargs)
        except Exception as error:
            if not (self.completed and self.in_caller_transaction):
                raise
            return self.ended_by(error)  # or its savepoint would take the completion back

    def _watched(self, args: Any, kwargs: Any) -> Any:
        """Nothing is settled in a transaction that the body left open: nobody would commit it."""
        try:
            value = self.task.idempotency_body(*args, **kwargs)
        except BaseException:
            self.watch.close()
            raise
        refuse(self.task.name, self.watch.close())
        return value

    def end_by(self, error: BaseException) -> Any:
        """Settle a claim whose body was never started, because ``error`` struck inside the claim."""
        try:
            self.ended_by(error)
        except LeaseLost:
            if not is_shutdown(error):
                return self._superseded()
            self._on_lost()
        raise error

    def _held(self) -> AbstractContextManager[None]:
        if self.in_caller_transaction:  # nobody else can see the claim: no lease to keep
            return nullcontext()
        return heartbeat.holding(self.claim, self._on_lost, self._on_doubt, self.progress)

    def tell(self, text: str) -> None:
        """What ``.progress()`` does; in the caller's transaction nobody could see it before the end."""
        self.progress.say(text)
        if not self.in_caller_transaction:
            heartbeat.hurry(self.progress)

    @contextmanager
    def _told(self) -> Iterator[None]:
        """The last word of a body is written before its end is: where it failed is worth knowing."""
        try:
            yield
        except Exception:
            self.progress.finish(self.ledger.store, self.claim)
            raise
        self.progress.finish(self.ledger.store, self.claim)

    def _savepoint(self) -> AbstractContextManager[Any]:
        if self.in_caller_transaction:
            return transaction.atomic(using=self.alias)
        return nullcontext()

    @contextmanager
    def outside(self) -> Iterator[None]:
        """What ``.external()`` does; the doubt stays until the claim is settled."""
        if self.tells_lost():
            raise self.settlement.lost()
        if not self.ledger.policy.at_most_once:
            yield
            return
        self.settlement.enter_external()
        before, self.doubt = self.doubt, True
        try:
            yield
        except BaseException as error:
            if self._says_that_nothing_happened(error):
                self.doubt = before
            raise

    def _says_that_nothing_happened(self, error: BaseException) -> bool:
        cause = cause_of(error) if is_a(error, Retry) else error
        return cause is not None and self._judged(cause) is Judgement.TRANSIENT

    @contextmanager
    def completing(self) -> Iterator[Done]:
        """The transaction of ``.complete()``."""
        if self.completed:
            msg = f"{self.task.name} called complete() twice; its key is completed already."
            raise RuntimeError(msg)
        if self.gave_up:
            raise self.settlement.lost()
        done, committing = Done(), False
        try:
            with transaction.atomic(using=self.alias, durable=not self.in_caller_transaction):
                yield done
                self.progress.finish(self.ledger.store, self.claim)
                committing = True
                self.settlement.complete_once(done.result)
        except BaseException as error:
            # It may be the answer to COMMIT that was lost, or a signal that struck inside it: the row knows.
            unsure = committing and not is_a(error, LeaseLost)
            if not (unsure and self.settlement.is_completed()):
                raise
            self.completed, self.result = True, done.result
            if is_shutdown(struck_by(error)):
                raise
        self.completed, self.result = True, done.result

    def _returned(self, value: Any) -> Any:
        if self.completed:
            return self.result
        if self.gave_up:
            raise self.settlement.lost()
        if self.captured is None:
            self.settlement.complete(value)
        elif self.doubt:
            self._failed(
                ManualReview("It asked for a retry after external(), which could be repeated by it.")
            )
        else:  # self.retry(throw=False)
            self.settle_captured()
        return value

    def replace(self, sig: Any, send: Callable[[Any], Any]) -> Any:
        """Send what takes this task's place, now: the key completes after it."""
        if self.completed:
            msg = f"{self.task.name} called replace() after complete(): its key has a result already."
            raise RuntimeError(msg)
        check_replacement(self.task, sig, self.claim, in_place=True)
        text, _ = replacement_text(self.task, sig)
        self.is_replacing = True
        try:
            return send(sig)
        except Ignore:
            if self.captured is None:
                self.replacement = text
            raise
        finally:
            self.is_replacing = False

    # -- a lost lease --

    def _on_lost(self) -> None:
        """Called by the heartbeat's thread, or here when a settlement was refused."""
        if not self.lost:
            self.lost = True
            signals.lease_lost.send_robust(sender=self.task.name, claim=self.claim)

    def _on_doubt(self, doubted: bool) -> None:  # noqa: FBT001  a callback of the heartbeat's thread
        self.doubted = doubted

    def tells_lost(self) -> bool:
        """What ``.lost`` says. Who was told so stops, and must not be taken for one that has ended."""
        self.gave_up = self.gave_up or self.doubted
        return self.lost or self.gave_up

    def _give_up(self) -> None:
        """Where nobody has taken the key after all, it is free; the message goes back."""
        if self.doubt:
            self._failed(
                ManualReview("Its lease was over after external(); what it did may not be repeated.")
            )
        self.settlement.postpone(wait=0)
        give_back(self.task, "Its lease was over while the ledger did not answer.")

    def _superseded(self) -> Any:
        """The settlement was refused: what becomes of the message depends on who has the work now."""
        if self.gave_up and not self.request.is_eager:
            with suppress(LeaseLost):
                self._give_up()
        self._on_lost()
        mark_answered(self.request)
        if self.request.is_eager:
            raise self.settlement.lost()
        entry = self.settlement.row()
        succession = succeeded_by(entry, self.claim)
        match succession.heir:
            case Heir.DONE if entry is not None:
                return replay(self.task, Answer(entry.state, entry.reason, entry.result))
            case Heir.LATER:
                come_back(self.task, seconds=succession.seconds)
            case Heir.LEDGER:
                raise Ignore
        return self._lost_row()

    def _lost_row(self) -> NoReturn:
        """Nobody has the work: the delivered message is what is left of it."""
        reason = f"{self.task.name}: the ledger has lost its key's row, or has one of an earlier time."
        logger.error("%s Its message goes back to the queue and is run again.", reason)
        give_back(self.task, reason)


class LeasedDelivery(Delivery):
    """Claim, then run."""

    def _claim_and_run(self, call: Call, owner: str) -> Any:
        if self.in_transaction and not self.request.is_eager:
            msg = f"{self.task.name} is leased and cannot start inside an open transaction."
            raise OuterTransaction(msg)
        call = self._stored(call)
        try:
            self.watch.begin()
            outcome = self._claim(call, owner)
            if isinstance(outcome, Claimed):
                return self._run(outcome.claim)
            return self._answer(call, outcome)
        except (SoftTimeLimitExceeded, SystemExit, KeyboardInterrupt) as error:
            return self._struck(call, owner, error)

    def _run(self, claim: Claim) -> Any:
        return self._attempt(claim).run(self.args, self.kwargs)

    def _attempt(self, claim: Claim) -> LeasedAttempt:
        return LeasedAttempt(
            self.task, self.ledger, claim, self.watch, in_caller_transaction=self.in_transaction
        )

    def _claim(self, call: Call, owner: str) -> Outcome:
        """Claim; a connection that had died is replaced once. The owner's name recognises a lost answer."""
        try:
            return self.ledger.claim(call, owner=owner, first=self._first_step())
        except DatabaseError:
            if self.in_transaction:
                raise
            self.ledger.store.connection.close()
        try:
            return self.ledger.claim(call, owner=owner, first=Step.WAIT)
        except DatabaseError as error:
            self._store_is_down(error)

    def _struck(self, call: Call, owner: str, error: BaseException) -> Any:
        """A signal struck. Whether it left a claim unsettled is read, not guessed; such a one is ended."""
        if self.in_transaction:
            raise error
        is_polite = isinstance(error, SoftTimeLimitExceeded) and not self.request.is_eager
        try:
            self.ledger.store.connection.close()
            claim, doubt = self._unsettled(call, owner, is_polite=is_polite)
        except DatabaseError as problem:
            if is_polite:  # its message would be acknowledged, and without a row the work be gone
                self._store_is_down(problem)
            raise error from problem  # the lease runs out
        if claim is None:
            raise error
        attempt = self._attempt(claim)
        attempt.doubt = doubt
        return attempt.end_by(error)

    def _unsettled(self, call: Call, owner: str, *, is_polite: bool) -> tuple[Claim | None, bool]:
        """What a signal left unsettled, and whether it was inside ``external()``.

        A key without a row is claimed to be ended, where the worker goes on and acknowledges the message.
        """
        entry = self.ledger.store.read(call.identity.digest, task_id=call.task_id)
        if entry is None and is_polite:
            outcome = self.ledger.claim(call, owner=owner, first=Step.INSERT)
            return (outcome.claim if isinstance(outcome, Claimed) else None), False
        if entry is None or entry.owner != owner or entry.state is not State.RUNNING:
            return None, False
        grant = Grant(entry.token, entry.generation, entry.attempts, entry.crashes, entry.reason)
        return Claim(call, owner, grant, self.policy.lease), entry.in_external
