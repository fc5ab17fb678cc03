"""Ends an atomic claim after the rollback of its transaction: writes the outcome in a new transaction."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

from billiard.common import terminate_handler_fired  # type: ignore[attr-defined]  # newer than its stubs
from django.db import Error as DatabaseError

from ..conf import settings
from ..ledger.atomic import AtomicLedger, Recorded, Unsent
from ..ledger.failures import failure_of
from ..ledger.ledger import Ledger
from ..ledger.values import Claim
from ..messages.message import stored_text
from ..signals import announce
from ..states import Category, State
from .settlement import Settlement, Verb

#: Seconds after SIGTERM at which a child still lives if no hard time limit caused the signal.
KILLED_BY_THEN = 0.25


class AtomicSettlement(Settlement):
    """The ways in which an attempt ends after the rollback of its transaction."""

    ledger: AtomicLedger
    #: The token of the row before this attempt.
    seen: int
    #: Whether the body ended the transaction itself, perhaps with a commit.
    ended_inside = False

    def look_for_a_commit(self) -> None:
        """Read the row to see whether the body committed its claim itself, which MySQL's driver hides."""
        if self.in_caller_transaction or self.ended_inside:
            return
        with suppress(DatabaseError):  # a connection that broke has committed nothing
            entry = self.row()
            self.ended_inside = (
                entry is not None and entry.state is State.SUCCEEDED and entry.owner == self.claim.owner
            )

    def release(self) -> None:
        """Undo the count of a redelivery's start; an uncounted start has left nothing to undo.

        Celery's hard time limit sends a child SIGTERM and kills it 0.1 s later: that start stays counted.
        """
        self.began = True
        if self.ledger.counted is not None:
            if terminate_handler_fired():
                time.sleep(KILLED_BY_THEN)
            super().release()

    def crash(self, error: BaseException) -> None:
        """Count a connection that died under the body as a death; a counted start is counted already."""
        if self.ledger.counted is not None:
            return
        failure = failure_of(
            error, task=self.task.name, category=Category.RETRYABLE, worker=self.request.hostname
        )

        def die(ledger: Ledger, claim: Claim) -> bool:
            republish = settings().republish_after
            return ledger.store.free_dead(
                claim.digest, owner_prefix=claim.owner, republish=republish, failure=failure
            )

        self._carry(die)

    def _carry(self, verb: Verb) -> bool:
        # The message is stored only here: the row of a body that commits keeps none.
        call = replace(self.claim.call, message=stored_text(self.task, self.request))
        with self._outside() as ledger:
            recorded = ledger.record(
                call,
                owner=self.claim.owner,
                seen=self.seen,
                settle=lambda claim: verb(ledger, replace(claim, began=self.claim.began)),
                committed=self.ended_inside,
            )
        return recorded is Recorded.DONE

    @contextmanager
    def _outside(self) -> Iterator[AtomicLedger]:
        """The ledger, on a connection outside the caller's open transaction, which may be rolled back."""
        if not self.in_caller_transaction or self.request.is_eager:
            yield self.ledger
            return
        unsent: list[Unsent] = []
        with self.ledger.store.side_connection() as store:
            yield replace(self.ledger, store=store, unsent=unsent)
        for signal, sender, arguments in unsent:
            announce(signal, sender=sender, using=None, **arguments)
