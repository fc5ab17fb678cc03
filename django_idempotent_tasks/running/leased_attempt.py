"""Runs one leased claim: the heartbeat renews the lease, the completion names the fencing token."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any, NoReturn

from celery.exceptions import Ignore, Reject, Retry

from .. import signals
from ..errors.raised import is_a, is_shutdown
from ..exceptions import LeaseLost, ManualReview, OuterTransaction
from ..ledger.progress import encode_progress
from ..ledger.succession import Heir, succeeded_by
from ..ledger.values import Answer
from ..states import Category
from . import heartbeat
from .context import Done, Entered, announce_start
from .endings import cause_of, struck_by
from .handlers import mark_answered
from .kept_open import kept_open
from .leftovers import Watch, refuse
from .parted import PartedAttempt
from .progress import Progress
from .replay import check_replacement, replaced_in_a_transaction, replacement_text, replay
from .reschedule import come_back, give_back
from .settlement import Settlement

logger = logging.getLogger("django_idempotent_tasks")


class LeasedAttempt(PartedAttempt):
    """One run of a leased claim, which other processes see."""

    def __init__(self, settlement: Settlement, watch: Watch) -> None:
        super().__init__(settlement, watch)
        self.lost = self.doubted = False
        #: How many blocks of Django are around the body in its caller's transaction.
        self._blocks = 0
        self.progress = Progress()

    def run(self, args: Any, kwargs: Any) -> Any:
        """Run the body and settle the claim; returns the result or raises what Celery has to see."""
        with self._held():
            try:
                if self.claim.grant.crashes >= self.ledger.policy.max_crashes:
                    self.bury()
                try:
                    value = self._reported(args, kwargs)
                    self._check_records()
                except BaseException as error:  # noqa: BLE001  whatever ends a body must settle its claim
                    return self.ended_by(error)
                return self._returned(value)
            except LeaseLost:
                return self._superseded()

    def _reported(self, args: Any, kwargs: Any) -> Any:
        """Run the body, and write its last progress report before its outcome, also when it fails."""
        try:
            with Entered(self):
                value = self._body(args, kwargs)
        except Exception:
            self.progress.finish(self.ledger.store, self.claim)
            raise
        self.progress.finish(self.ledger.store, self.claim)
        return value

    def _body(self, args: Any, kwargs: Any) -> Any:
        """Run the body, in the caller's transaction behind a savepoint."""
        if not self.in_caller_transaction:
            return self._watched(args, kwargs)
        with self.transaction():
            self._blocks = len(self.ledger.store.connection.savepoint_ids)
            try:
                return self._watched(args, kwargs)
            except Exception as error:
                if not self.completed:
                    raise
                return self.ended_by(error)  # raised, it would roll back the savepoint with the completion

    def _watched(self, args: Any, kwargs: Any) -> Any:
        """Run the body and close connections on which it left a transaction open: nobody would commit it."""
        try:
            announce_start(self)
            value = self.task.idempotency_body(*args, **kwargs)
        except BaseException as error:
            left = self.watch.close()
            if is_a(error, Ignore):  # the work is done, by the body's word
                refuse(self.task.name, left)
                self._check_records()
            raise
        refuse(self.task.name, self.watch.close())
        return value

    def end_by(self, error: BaseException) -> Any:
        """Settle a claim whose body was never started, because ``error`` struck during the claim."""
        try:
            self.ended_by(error)
        except LeaseLost:
            if not is_shutdown(error):
                return self._superseded()
            self._on_lost()
        raise error

    def _held(self) -> AbstractContextManager[None]:
        if self.in_caller_transaction:  # no other process sees the claim: no lease to keep
            return nullcontext()
        return heartbeat.holding(self.claim, self._on_lost, self._on_doubt, self.progress)

    def report(self, done: float, total: float | None = None, note: str = "") -> None:
        """What ``.progress()`` does; in the caller's transaction nobody could see it before the end."""
        self.progress.report(encode_progress(done, total, note))
        if not self.in_caller_transaction:
            heartbeat.hurry(self.progress)

    def transaction(self, lost: Callable[[], LeaseLost] | None = None) -> AbstractContextManager[Any]:
        """A transaction of our own, or a savepoint in the caller's.

        ``lost`` makes the error of a COMMIT that finds another attempt with the key.
        """
        if self.in_caller_transaction:
            return self.ledger.store.together()
        return kept_open(self.ledger.store, self.task.name, self.claim, lost or self.settlement.lost)

    @contextmanager
    def outside(self) -> Iterator[None]:
        """What ``.external()`` does; ``self.doubt`` stays set until the claim is settled."""
        if self.tells_lost():
            raise self.settlement.lost()
        if not self.ledger.policy.at_most_once:
            yield
            return
        self.settlement.enter_external(aside=self._is_in_a_transaction())
        before, self.doubt = self.doubt, True
        try:
            yield
        except BaseException as error:
            if self._is_without_effect(error):
                self.doubt = before
            raise

    def _is_in_a_transaction(self) -> bool:
        """Whether the body has a transaction open, one of Django's or one begun by hand."""
        if self.in_caller_transaction:
            return False
        return self.ledger.store.connection.in_atomic_block or self.watch.is_by_hand(at_any_cost=True)

    def _is_without_effect(self, error: BaseException) -> bool:
        """Whether an error out of ``external()`` is a transient one: its effect has not happened."""
        cause = cause_of(error) if is_a(error, Retry) else error
        return cause is not None and self._category(cause) is Category.RETRYABLE

    @contextmanager
    def completing(self) -> Iterator[Done]:
        """The transaction of ``.complete()``."""
        if self.completed:
            msg = f"{self.task.name} called complete() twice; its key is completed already."
            raise RuntimeError(msg)
        self._check_no_step("complete()")
        self._check_done("complete()")
        if self.gave_up:
            raise self.settlement.lost()
        if self.watch.is_by_hand():
            msg = (
                f"{self.task.name} called complete() in a transaction begun by hand, or without autocommit,"
                " which commits nothing. First COMMIT what your own BEGIN began, or set_autocommit(True)."
            )
            raise OuterTransaction(msg)
        if self.in_caller_transaction and len(self.ledger.store.connection.savepoint_ids) > self._blocks:
            msg = f"{self.task.name} called complete() inside an atomic() of its own: a worker refuses that."
            raise RuntimeError(msg)
        done, committing = Done(), False
        try:
            with self.transaction():
                yield done
                self.progress.finish(self.ledger.store, self.claim)
                committing = True
                self.settlement.complete_once(done.result)
        except BaseException as error:
            # The answer to COMMIT may be lost, or a signal struck inside it: the row tells.
            unsure = committing and not is_a(error, LeaseLost)
            if not (unsure and self.settlement.is_completed()):
                raise
            self._has_completed(done)
            if is_shutdown(struck_by(error)):
                raise
        self._has_completed(done)

    def _has_completed(self, done: Done) -> None:
        self.completed = self.settlement.has_ended = self.settlement.has_completed = True
        self.result = done.result

    def _returned(self, value: Any) -> Any:
        if self.completed:
            return self.result
        if self.gave_up:
            raise self.settlement.lost()
        if self.captured is None:
            self.settlement.complete(value)
        elif self.doubt:
            self._failed(
                ManualReview("The body asked for a retry after external(), which would repeat its effect.")
            )
        else:  # self.retry(throw=False)
            self.settle_captured()
        return value

    def _settle_error(self, error: BaseException) -> NoReturn:
        """Run a call again that stopped because ``.lost`` was true: it has neither failed nor ended."""
        is_sent = self.replacement is not None  # the replacement
        if self.gave_up and not is_sent and not is_a(error, LeaseLost, Retry, Reject):
            raise self.settlement.lost() from error
        super()._settle_error(error)

    def replace(self, sig: Any, send: Callable[[Any], Any]) -> Any:
        """Send the replacement now, and complete the key after it."""
        if self.completed:
            msg = f"{self.task.name} called replace() after complete(): its key has a result already."
            raise RuntimeError(msg)
        self._check_done("replace()")
        check_replacement(self.task, sig, self.claim, in_place=True)
        text, _ = replacement_text(self.task, sig)
        before = len(self.ledger.store.connection.run_on_commit)
        self.is_replacing = True
        try:
            return send(sig)
        except Ignore:
            if len(self.ledger.store.connection.run_on_commit) > before:
                raise replaced_in_a_transaction(self.task.name) from None
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
        """The value of ``.lost``; a body that has seen it true stops, which is no end of its work."""
        self.gave_up = self.gave_up or self.doubted
        return self.lost or self.gave_up

    def _give_up(self) -> None:
        """Free the key, unless another attempt has taken it, and put the message back."""
        if self.doubt:
            self._failed(
                ManualReview("The lease was over after external(), whose effect may not be repeated.")
            )
        self.settlement.postpone(wait=0)
        give_back(self.task, "Its lease was over while the ledger did not answer.")

    def _superseded(self) -> Any:
        """Answer the message of an attempt whose settlement was refused, by who has the work now."""
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
        return self._put_back()

    def _put_back(self) -> NoReturn:
        """Put the message back where nobody has the work: only the message is left of it."""
        reason = f"{self.task.name}: its key's row is gone from the ledger, or is older than this attempt."
        logger.error("%s Its message goes back to the queue and is run again.", reason)
        give_back(self.task, reason)
