"""Reserves many calls at once: their rows in one transaction, their messages in bulk after its commit.

In memory are the calls of one bite, and of all calls what ``submit_many`` returns and the digest of each key
whose message is to be sent. After the commit the ledger is asked whether all calls still wait, and else for
their messages, as it is where those were not kept here.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, nullcontext
from itertools import chain
from typing import Any, NamedTuple
from uuid import UUID

from django.db import Error as DatabaseError
from django.db import transaction

from ..conf.options import Policy
from ..exceptions import ConfigurationError, IdempotencyError, KeyReused
from ..ledger import pauses
from ..ledger.ledger import Ledger
from ..ledger.many import Accepted, Intake, refuse_many
from ..ledger.stores import get_store
from ..ledger.values import Call, Following, Refused, Reserved
from ..messages.message import Message
from ..messages.mould import Cast
from ..messages.relay import relay
from .alike import AlikeReservation, Preparing, Through
from .here import is_followed, run_here, runs_here
from .reservation import Reservation, check_commits
from .submission import Submission

logger = logging.getLogger("django_idempotent_tasks")

#: Calls that are reserved by one statement, and the characters of their messages, unless one has more: with
#: each quote escaped they are twice as many, and MariaDB takes 16 MiB at once.
BITE, BUDGET = 1000, 4 * 1024 * 1024
#: Characters of messages that are kept in memory until the commit, so that they need not be decoded; of one.
KEPT, SMALL = 4 * 1024 * 1024, 1000

#: What belongs to one call.
_OF_ONE_CALL = ("args", "kwargs", "task_id", "idempotency_key")


def submit_many(
    task: Any,
    policy: Policy,
    calls: Iterable[Mapping[str, Any]],
    options: Mapping[str, Any],
    through: Through,
) -> list[Submission]:
    """What ``submit`` says of each call. An error names the place of its call, and nothing is written."""
    many = reserve_many(task, policy, calls, options, through)
    many.run_here()
    return many.submissions


def reserve_many(
    task: Any,
    policy: Policy,
    calls: Iterable[Mapping[str, Any]],
    options: Mapping[str, Any],
    through: Through,
) -> Many:
    """The calls, reserved in one transaction; in eager mode they run with :meth:`Many.run_here`.

    ``through`` sends a call through the task's ``apply_async``, at whose end it is prepared.
    """
    for name in _OF_ONE_CALL:
        if name in options:
            raise ConfigurationError(f"{task.name}: {name!r} belongs to one call; give it in the call.")
    many = Many(task, policy)
    check_commits(task, many.ledger.store)
    alias = many.ledger.store.connection.alias
    with transaction.atomic(using=alias), _read_to_its_end(calls):
        for bite in _bites(_prepared(Preparing(task, policy, options, through), calls)):
            many.accept(bite)
        if many.is_waiting:
            # A method has a name, which Django asks a failing hook for. Robust: one failure stops no other.
            transaction.on_commit(many.publish, using=alias, robust=True)
    return many


class Bite(NamedTuple):
    """Calls whose messages are to be sent: their keys with the tokens, and what is kept of each message."""

    tokens: dict[UUID, int]
    kept: list[Cast | None]


class Many:
    """Calls that are reserved together."""

    def __init__(self, task: Any, policy: Policy) -> None:
        self.task = task
        self.ledger = Ledger(get_store(), policy)
        self._is_eager = bool(task.app.conf.task_always_eager)
        self.submissions: list[Submission] = []
        #: The keys whose messages are to be sent, as they were reserved together.
        self.bites: list[Bite] = []
        self._room = KEPT
        self._held: set[str] = set()
        self._eager: list[tuple[Reservation, Submission]] = []
        #: Follow-ups, and duplicates of what waits: looked after once the transaction has committed.
        self._followers: list[Reservation] = []

    def holds(self, task_id: str) -> bool:
        """Whether the message of this call waits for the open transaction to commit."""
        return task_id in self._held

    @property
    def is_waiting(self) -> bool:
        """Whether a call waits for the open transaction to commit."""
        return bool(self._held or self._followers)

    def accept(self, bite: list[Reservation]) -> None:
        """Reserve these calls."""
        first = len(self.submissions)
        outcomes = Intake(self.ledger, [each.wanted for each in bite]).accept()
        for place in sorted(place for place, outcome in outcomes.items() if type(outcome) is not Reserved):
            _check(outcomes[place], bite[place], first + place)
        refused: list[tuple[Call, Refused]] = []
        to_send = Bite({}, [])
        for place, each in enumerate(bite):
            outcome = outcomes[place]
            if isinstance(outcome, Reserved):
                self._accepted(each, outcome.token, to_send)
            elif isinstance(outcome, Refused):
                self._refused(each, outcome, refused)
            elif isinstance(outcome, Following):
                self._held.add(each.task_id)
                self._followers.append(each)
                self.submissions.append(each.accepted())
        refuse_many(self.ledger, refused, place="send")
        self.bites += [to_send] if to_send.tokens else []

    def _refused(self, each: Reservation, outcome: Refused, refused: list[tuple[Call, Refused]]) -> None:
        self.submissions.append(each.refused(outcome))
        if outcome.holder != each.task_id:
            refused.append((each.call, outcome))
        if each.leaves_something(outcome):
            self._held.add(outcome.holder)
            self._followers.append(each)

    def _accepted(self, reservation: Reservation, token: int, to_send: Bite) -> None:
        submission = reservation.accepted()
        self.submissions.append(submission)
        if self._is_eager:
            self._eager.append((reservation, submission))
            return
        self._held.add(reservation.task_id)
        if not reservation.is_far:
            to_send.tokens[reservation.identity.digest] = token
            to_send.kept.append(self._to_keep(reservation))

    def _to_keep(self, reservation: Reservation) -> Cast | None:
        """The message, where it was made here and there is room to keep it in memory until it goes out."""
        if not isinstance(reservation, AlikeReservation) or self._room <= 0:
            return None
        size = reservation.cast.size
        if size > SMALL:
            return None
        self._room -= size
        return reservation.cast

    def run_here(self) -> None:
        """In eager mode: run what was accepted, in its order; then raise the first error of a run."""
        errors: list[Exception] = []
        for reservation, submission in self._eager:
            try:
                reservation.run_here(submission.result)
            except Exception as error:  # noqa: BLE001  whatever a body raises, with task_eager_propagates
                errors.append(error)
        if errors:
            raise errors[0]

    def publish(self) -> None:
        """Send the messages, for at most two seconds; the sweeper is told to send the others soon."""
        self._held.clear()
        for follower in self._followers:
            follower.after_commit()
        if not self.bites:  # each call waits for its time in the ledger
            return
        try:
            sent = self._run_or_send() if runs_here() else self._sent()
            self.ledger.store.sends_failed(self._unsent(sent))
        except DatabaseError as error:
            logger.warning(
                "%s: the sweeper sends some calls only after REPUBLISH_AFTER (%r)", self.task.name, error
            )

    def _sent(self) -> set[int]:
        """Send the messages, by the numbers of their calls; those that the broker has."""
        return set() if self._is_paused() else {*relay.send_many(self.task.app, self._to_send())}

    def _unsent(self, sent: set[int]) -> dict[UUID, int]:
        """The keys of the other calls, with their tokens."""
        tokens = chain.from_iterable(bite.tokens.items() for bite in self.bites)
        return dict(item for number, item in enumerate(tokens) if number not in sent)

    def _is_paused(self) -> bool:
        """Whether calls of every scope wait in the ledger; a worker leaves those of one scope there."""
        return pauses.pause_of(self.ledger.store, self.task.name, None) is not None

    def _run_or_send(self) -> set[int]:
        """``SYNC_FALLBACK``: each call is run here, as a single one; the numbers of those that were."""
        done: set[int] = set()
        for number, kept in self._to_send():
            message = kept.whole() if isinstance(kept, Cast) else kept
            if is_followed(message) and not relay.send(self.task.app, message):
                continue
            done.add(number)
            if not is_followed(message):
                self._run_one(message)
        return done

    def _run_one(self, message: Message) -> None:
        """Run a call here; what it raises, with ``task_eager_propagates``, keeps no other from running."""
        try:
            run_here(self.task, message)
        except Exception:
            logger.exception("%s (%s) failed where it was sent", self.task.name, message.options["task_id"])

    def _to_send(self) -> Iterator[tuple[int, Message | Cast]]:
        """The messages by the numbers of their calls, without those that somebody has cancelled since."""
        first = 0
        for bite in self.bites:
            kept = [each for each in bite.kept if each is not None]
            if len(kept) == len(bite.kept) and self.ledger.store.all_wait(bite.tokens):
                yield from enumerate(kept, first)
            else:
                yield from self._read(bite, first)
            first += len(bite.kept)

    def _read(self, bite: Bite, first: int) -> Iterator[tuple[int, Message | Cast]]:
        texts = self.ledger.store.messages(bite.tokens)
        for number, (digest, kept) in enumerate(zip(bite.tokens, bite.kept, strict=True), first):
            text = texts.pop(digest, None)
            if text is not None:
                yield number, kept or Message.decode(self.task.name, text)


def _check(outcome: Accepted, call: Reservation, place: int) -> None:
    """Raise what says that a call's key is another's, or was held for too long."""
    if isinstance(outcome, KeyReused):
        raise named(outcome, place)
    if isinstance(outcome, Refused) and not outcome.holder:
        raise named(call.refuse(call.refused(outcome)), place)


def _read_to_its_end(calls: Iterable[Mapping[str, Any]]) -> AbstractContextManager[Any]:
    """After an error, end a generator before our transaction ends.

    A transaction that it has begun around its calls would else be ended in the place of ours.
    """
    return closing(calls) if isinstance(calls, Generator) else nullcontext()


def named(error: Exception, place: int) -> Exception:
    """The error, which says the place of its call."""
    if isinstance(error, IdempotencyError) and error.args:
        error.args = (f"calls[{place}]: {error.args[0]}", *error.args[1:])
    else:
        error.add_note(f"calls[{place}] of submit_many")
    return error


def _prepared(preparing: Preparing, calls: Iterable[Mapping[str, Any]]) -> Iterator[Reservation]:
    """Each call, stamped and checked."""
    for place, call in enumerate(calls):
        try:
            yield preparing.prepared(call)
        except Exception as error:
            named(error, place)
            raise


def _bites(prepared: Iterator[Reservation]) -> Iterator[list[Reservation]]:
    bite: list[Reservation] = []
    size = 0
    for each in prepared:
        bite.append(each)
        size += len(each.call.message or "")
        if len(bite) >= BITE or size >= BUDGET:
            yield bite
            bite, size = [], 0
    if bite:
        yield bite
