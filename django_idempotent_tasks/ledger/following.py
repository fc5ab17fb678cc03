"""Accepts the calls of a task with follow-ups, and gives a key whose call has ended to the one that follows.

Nothing that a caller has changed is missed, because the body that counts begins after the caller's commit: a
call that waits, and a follow-up, are held until then; a body that runs may have read before, and is followed.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, replace
from uuid import UUID

from celery import Celery
from django.db import Error as DatabaseError

from ..conf import settings
from ..conf.follow_ups import LAST
from ..messages.message import Message
from ..messages.relay import relay
from ..states import Reason, State
from .ledger import Ledger
from .moments import database_now
from .reserving import HOLD_PACE, LONGEST_HOLD
from .rules import IN_PROGRESS, Step
from .stores import LedgerStore
from .stores.connection import is_open
from .values import Abandoned, Answer, Entry, Following, Refused, Reserved, Wanted

logger = logging.getLogger("django_idempotent_tasks")

#: What monitors are shown of a message's arguments, where that was stated for them.
_DESCRIPTIONS = ("argsrepr", "kwargsrepr")


def accept(ledger: Ledger, wanted: Wanted, *, place: str = "") -> Reserved | Following | Refused:
    """What becomes of a call that is to be reserved, of a task with follow-ups or without.

    Waits at most 2 s for another open transaction that holds the key. With a ``place`` a refusal may be
    recorded at once. Raises :class:`KeyReused`.
    """
    if ledger.policy.follows:
        return Intake(ledger, wanted).accept()
    return ledger.accept(
        wanted.call, wait=wanted.wait, republish=wanted.republish, sends=wanted.sends, place=place
    )


def after_commit(ledger: Ledger, digest: UUID, app: Celery) -> None:
    """What the sender of a follow-up, or of a duplicate, leaves until its transaction has committed."""
    policy, store = ledger.policy, ledger.store
    try:
        if policy.debounce:
            store.postpone(digest, wait=policy.debounce, longest=policy.debounce_max)
        promote(store, digest, app)
    except DatabaseError as error:
        logger.warning("The follow-up of %s could not begin here; the sweeper begins it (%r)", digest, error)


def promote(store: LedgerStore, digest: UUID, app: Celery, *, token: int | None = None) -> bool:
    """Give an ended key to its follow-up, if it has one, and send that; the sweeper sends what is not out.

    ``token``: that of a run whose body has ended. Raises what the database raises.
    """
    promoted = store.promote(
        digest, window=settings().redelivery_window, republish=settings().republish_after, token=token
    )
    if promoted is None:
        return False
    if promoted.is_due and not _send(promoted.call.task, promoted.call.message or "", app):
        store.send_failed(digest, token=promoted.token)
    return True


def promote_all(store: LedgerStore, *, bite: int) -> int:
    """Give at most ``bite`` ended keys to their follow-ups, due for the sweep that comes; how many."""
    return sum(_promoted(store, digest) for digest in store.promotable(bite=bite))


def _promoted(store: LedgerStore, digest: UUID) -> bool:
    """Whether the key was given to its follow-up. Of what the database refuses the next sweep tries again."""
    try:
        window = settings().redelivery_window
        return store.promote(digest, window=window, republish=0) is not None
    except DatabaseError as error:
        logger.warning("The key %s could not be given to its follow-up: %r", digest, error)
        database_now(store)  # raises where it is not this row alone
        return False


def _send(task: str, text: str, app: Celery) -> bool:
    if app.conf.task_always_eager:
        return False
    try:
        message = Message.decode(task, text)
    except ValueError:
        return False  # the sweeper counts its looks, and gives it up in the end
    return relay.send(app, message)


@dataclass(frozen=True, slots=True)
class Intake:
    """One call of a task with follow-ups on its way in."""

    ledger: Ledger
    wanted: Wanted

    @property
    def _store(self) -> LedgerStore:
        return self.ledger.store

    def accept(self) -> Reserved | Following | Refused:
        """Reserve the key, follow what runs, or be the duplicate of what waits."""
        deadline = time.monotonic() + LONGEST_HOLD
        while True:
            outcome = self._once()
            if outcome is not None:
                return outcome
            if time.monotonic() > deadline:
                return Refused(IN_PROGRESS, "", Answer(State.PENDING, Reason.NONE, None), None)
            time.sleep(HOLD_PACE)

    def _once(self) -> Reserved | Following | Refused | None:
        """The outcome; None where somebody else has the key for a moment."""
        call, wanted = self.wanted.call, self.wanted
        token = self._store.reserve_new(call, wait=wanted.wait + wanted.republish, sends=wanted.sends)
        if token is not None:
            return Reserved(token)
        entry, verdict = self.ledger.look(call, owner="")
        if entry is None:
            return None
        if verdict.step is Step.REOPEN:
            return self._reserve_anew(entry)
        outcome = self.ledger.unreserved(call, entry, verdict)
        if isinstance(outcome, Abandoned):
            return self._take_over()
        if outcome.reason != IN_PROGRESS or outcome.holder == call.task_id:
            return outcome
        return self.follow(entry.task_id) if entry.state is State.RUNNING else self._join(entry, outcome)

    def _reserve_anew(self, entry: Entry) -> Reserved | Following | Refused | None:
        """Take a finished key, unless a follow-up waits for it: then that one is the accepted call.

        Looks while it has the key: what holds it for a moment is no sign that a cancelled body has ended.
        """
        wanted = self.wanted
        with self._store.holding(wanted.call) as is_held:
            if not is_held:
                return None
            cut_short = self._after_a_cancel(entry) if entry.state is State.CANCELLED else None
            if cut_short is not None:
                return cut_short
            if self._store.follow_up(wanted.digest) is None:
                token = self._store.reserve_finished(
                    wanted.call,
                    wait=wanted.wait + wanted.republish,
                    sends=wanted.sends,
                    seen=entry,
                    window=settings().redelivery_window,
                )
                return None if token is None else Reserved(token)
        return self._second()

    def _after_a_cancel(self, entry: Entry) -> Following | None:
        """Follow a cancelled run, whose body may not have ended."""
        return self.ledger.follow(self.wanted.call, wait=self.wanted.wait, holder=entry.task_id)

    def _take_over(self) -> Reserved | None:
        wanted = self.wanted
        token = self.ledger.take_over(wanted.call, wait=wanted.wait, republish=wanted.republish)
        return None if token is None else Reserved(token)

    def follow(self, holder: str) -> Following | Refused | None:
        """Follow the call ``holder`` that runs, or be a duplicate of its follow-up; None once it ended."""
        following = self.ledger.follow(self.wanted.call, wait=self.wanted.wait, holder=holder)
        return following or self._second()

    def _second(self) -> Refused | None:
        waiting = self._store.follow_up(self.wanted.digest)
        if waiting is None:
            return None
        if waiting.task_id != self.wanted.call.task_id:
            newer = self._newer(waiting.message)
            must_hold = newer is not None or is_open(self._store.connection)
            if must_hold and not self._store.hold_follow_up(self.wanted.digest, message=newer):
                return None
        return Refused(IN_PROGRESS, waiting.task_id, Answer(State.PENDING, Reason.NONE, None), None)

    def _join(self, entry: Entry, refused: Refused) -> Refused | None:
        """Be the duplicate of a call that waits and begins after the open transaction."""
        if entry.state is State.PENDING and self.ledger.policy.debounce:
            texts = self._store.messages({self.wanted.digest: entry.token})
            newer = self._newer(texts.get(self.wanted.digest, ""))
            if newer is not None:
                done = self._store.rewrite(self.wanted.digest, task_id=entry.task_id, message=newer)
                if done is not False:
                    return refused if done else None
        is_safe = not is_open(self._store.connection) or self._store.hold(self.wanted.call)
        return refused if is_safe else None

    def _newer(self, text: str) -> str | None:
        """The message of the call that waits, with this call's arguments; None where it keeps its own."""
        if self.ledger.policy.keep != LAST:
            return None
        call = self.wanted.call
        try:
            mine, theirs = (Message.decode(call.task, each) for each in (call.message or "", text))
        except ValueError:
            return None
        if (list(mine.args), dict(mine.kwargs)) == (list(theirs.args), dict(theirs.kwargs)):
            return None
        options = {name: value for name, value in theirs.options.items() if name not in _DESCRIPTIONS}
        newer = replace(theirs, args=mine.args, kwargs=mine.kwargs, options=options)
        return newer.encode(limit=settings().max_payload)
