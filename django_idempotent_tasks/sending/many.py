"""Reserves many calls at once: their rows in one transaction, their messages in bulk after its commit.

In memory are the calls of one bite, and of all calls what ``submit_many`` returns and the digest of each key
whose message is to be sent.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, nullcontext
from typing import Any

from django.db import transaction

from ..conf.options import Policy
from ..exceptions import ConfigurationError, IdempotencyError, KeyReused
from ..ledger.ledger import Ledger
from ..ledger.many import NEW, Accepted, Intake, refuse_many
from ..ledger.stores import commits, get_store
from ..ledger.values import Call, Following, Refused, Reserved
from .alike import AlikeReservation, Preparing, Through
from .listed import Listed
from .outgoing import Outgoing
from .reservation import Reservation, check_commits
from .submission import Submission

#: Calls that are reserved by one statement, and the characters of their messages, unless one has more: with
#: each quote escaped they are twice as many, and MariaDB takes 16 MiB at once.
BITE, BUDGET = 1000, 4 * 1024 * 1024

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
            commits.on_commit(many.ledger.store.connection, many.publish)
    return many


class Many:
    """Calls that are reserved together."""

    def __init__(self, task: Any, policy: Policy) -> None:
        self.task = task
        self.ledger = Ledger(get_store(), policy)
        self._is_eager = bool(task.app.conf.task_always_eager)
        self.submissions: list[Submission] = []
        self._outgoing = Outgoing(task, self.ledger)
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

    def accept(self, bite: list[Reservation | Listed]) -> None:
        """Reserve these calls."""
        intake = Intake(self.ledger, [each if isinstance(each, Listed) else each.wanted for each in bite])
        outcomes = intake.accept()
        self._outgoing.begin()
        if not intake.are_new or self._is_eager:
            self._judge(bite, outcomes)
            return
        self.submissions += [each.accepted() for each in bite]
        self._held.update([each.task_id for each in bite])
        for each in bite:
            self._outgoing.take(each, NEW)

    def _judge(self, bite: list[Reservation | Listed], outcomes: Mapping[int, Accepted]) -> None:
        first = len(self.submissions)
        for place in sorted(place for place, outcome in outcomes.items() if type(outcome) is not Reserved):
            _check(outcomes[place], self._whole(bite[place]), first + place)
        refused: list[tuple[Call, Refused]] = []
        for place, each in enumerate(bite):
            outcome = outcomes[place]
            if isinstance(outcome, Reserved):
                self._accepted(each, outcome.token)
            elif isinstance(outcome, Refused):
                self._refused(self._whole(each), outcome, refused)
            elif isinstance(outcome, Following):
                self._held.add(each.task_id)
                self._followers.append(self._whole(each))
                self.submissions.append(each.accepted())
        refuse_many(self.ledger, refused, place="send")

    def _whole(self, each: Reservation | Listed) -> Reservation:
        if not isinstance(each, Listed):
            return each
        return AlikeReservation(self.task, self.ledger, each.identity, each.task_id, each.message, each.cast)

    def _refused(self, each: Reservation, outcome: Refused, refused: list[tuple[Call, Refused]]) -> None:
        self.submissions.append(each.refused(outcome))
        if outcome.holder != each.task_id:
            refused.append((each.call, outcome))
        if each.leaves_something(outcome):
            self._held.add(outcome.holder)
            self._followers.append(each)

    def _accepted(self, each: Reservation | Listed, token: int) -> None:
        submission = each.accepted()
        self.submissions.append(submission)
        if self._is_eager:
            self._eager.append((self._whole(each), submission))
            return
        self._held.add(each.task_id)
        self._outgoing.take(each, token)

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
        self._outgoing.publish()


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


def _prepared(preparing: Preparing, calls: Iterable[Mapping[str, Any]]) -> Iterator[Reservation | Listed]:
    """Each call, stamped and checked."""
    for place, call in enumerate(calls):
        try:
            yield preparing.prepared(call)
        except Exception as error:
            named(error, place)
            raise


def _bites(prepared: Iterator[Reservation | Listed]) -> Iterator[list[Reservation | Listed]]:
    bite: list[Reservation | Listed] = []
    size = 0
    for each in prepared:
        bite.append(each)
        size += len(each.message if isinstance(each, Listed) else each.call.message or "")
        if len(bite) >= BITE or size >= BUDGET:
            yield bite
            bite, size = [], 0
    if bite:
        yield bite
