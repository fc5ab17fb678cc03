"""Reserves many calls at once: their rows in one transaction, their messages in bulk after its commit.

In memory are the calls of one bite, and of all calls what ``submit_many`` returns and the digest of each key
whose message is to be sent: the messages are read from the ledger again after the commit.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, nullcontext
from typing import Any
from uuid import UUID

from django.db import Error as DatabaseError
from django.db import transaction

from ..conf.options import Policy
from ..exceptions import ConfigurationError, IdempotencyError, KeyReused
from ..ledger.ledger import Ledger
from ..ledger.many import Intake, refuse_many
from ..ledger.stores import get_store
from ..ledger.values import Call, Refused
from ..messages.message import Message
from ..messages.relay import relay
from .reservation import Reservation, check_commits, is_followed, run_here, runs_here
from .send import prepare
from .submission import Submission

logger = logging.getLogger("django_idempotent_tasks")

#: Calls that are reserved by one statement, and the characters of their messages, unless one has more: with
#: each quote escaped they are twice as many, and MariaDB takes 16 MiB at once.
BITE, BUDGET = 1000, 4 * 1024 * 1024

#: What belongs to one call, and to the place of a call in a canvas, which sends it itself.
_OF_ONE_CALL = ("args", "kwargs", "task_id", "idempotency_key")
_OF_A_CANVAS = ("chain", "chord", "group_id")

Through = Callable[[Callable[..., Any], Any, Any, dict[str, Any]], Any]


def submit_many(
    task: Any,
    policy: Policy,
    calls: Iterable[Mapping[str, Any]],
    options: Mapping[str, Any],
    through: Through,
) -> list[Submission]:
    """What ``submit`` says of each call. An error names the place of its call, and nothing is written.

    ``through`` sends a call through the task's ``apply_async``, at whose end it is prepared.
    """
    for name in _OF_ONE_CALL:
        if name in options:
            raise ConfigurationError(f"{task.name}: {name!r} belongs to one call; give it in the call.")
    many = _Many(task, policy)
    check_commits(task, many.ledger.store)
    alias = many.ledger.store.connection.alias
    with transaction.atomic(using=alias), _read_to_its_end(calls):
        for bite in _bites(_prepared(task, calls, options, through)):
            many.accept(bite)
        if many.is_waiting:
            # A method has a name, which Django asks a failing hook for. Robust: one failure stops no other.
            transaction.on_commit(many.publish, using=alias, robust=True)
    many.run_here()
    return many.submissions


class _Many:
    """The calls of one ``submit_many``."""

    def __init__(self, task: Any, policy: Policy) -> None:
        self.task = task
        self.ledger = Ledger(get_store(), policy)
        self.submissions: list[Submission] = []
        #: The keys whose messages are to be sent, with their tokens, as they were reserved together.
        self.bites: list[dict[UUID, int]] = []
        self._held: set[str] = set()
        self._eager: list[tuple[Reservation, Submission]] = []

    def holds(self, task_id: str) -> bool:
        """Whether the message of this call waits for the open transaction to commit."""
        return task_id in self._held

    @property
    def is_waiting(self) -> bool:
        """Whether a call waits for the open transaction to commit."""
        return bool(self._held)

    def accept(self, bite: list[Reservation]) -> None:
        """Reserve these calls."""
        first = len(self.submissions)
        outcomes = Intake(self.ledger, [each.wanted for each in bite]).accept()
        for place, outcome in sorted(outcomes.items()):
            if isinstance(outcome, KeyReused):
                raise named(outcome, first + place)
            if isinstance(outcome, Refused) and not outcome.holder:
                raise named(bite[place].refuse(bite[place].refused(outcome)), first + place)
        refused: list[tuple[Call, Refused]] = []
        to_send: dict[UUID, int] = {}
        for place, each in enumerate(bite):
            outcome = outcomes[place]
            if isinstance(outcome, Refused):
                self.submissions.append(each.refused(outcome))
                if outcome.holder != each.task_id:
                    refused.append((each.call, outcome))
            elif not isinstance(outcome, KeyReused):
                self._accepted(each, outcome.token, to_send)
        refuse_many(self.ledger, refused, place="send")
        self.bites += [to_send] if to_send else []

    def _accepted(self, reservation: Reservation, token: int, to_send: dict[UUID, int]) -> None:
        submission = reservation.accepted()
        self.submissions.append(submission)
        if self.task.app.conf.task_always_eager:
            self._eager.append((reservation, submission))
            return
        self._held.add(reservation.task_id)
        if not reservation.is_far:
            to_send[reservation.identity.digest] = token

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
        if not self.bites:  # each call waits for its time in the ledger
            return
        tokens = {digest: token for bite in self.bites for digest, token in bite.items()}
        try:
            if runs_here():
                self._run_or_send(tokens)
            else:
                for digest in relay.send_many(self.task.app, self._messages()):
                    del tokens[digest]
            self.ledger.store.sends_failed(tokens)
        except DatabaseError as error:
            logger.warning("%s: the sweeper sends some REPUBLISH_AFTER late (%r)", self.task.name, error)

    def _run_or_send(self, tokens: dict[UUID, int]) -> None:
        """``SYNC_FALLBACK``: each call is run here, as a single one."""
        for digest, message in self._messages():
            if is_followed(message) and not relay.send(self.task.app, message):
                continue
            del tokens[digest]
            if not is_followed(message):
                self._run_one(message)

    def _run_one(self, message: Message) -> None:
        """Run a call here; what it raises, with ``task_eager_propagates``, keeps no other from running."""
        try:
            run_here(self.task, message)
        except Exception:
            logger.exception("%s (%s) failed where it was sent", self.task.name, message.options["task_id"])

    def _messages(self) -> Iterator[tuple[UUID, Message]]:
        for bite in self.bites:
            texts = self.ledger.store.messages(bite)
            for digest in bite:
                text = texts.pop(digest, None)
                if text is not None:  # else somebody has cancelled the call since
                    yield digest, Message.decode(self.task.name, text)


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


def _prepared(
    task: Any, calls: Iterable[Mapping[str, Any]], options: Mapping[str, Any], through: Through
) -> Iterator[Reservation]:
    """Each call, stamped and checked."""
    for place, call in enumerate(calls):
        try:
            args, kwargs, own = _opened(task, call)
            yield through(prepare, args, kwargs, {**options, **own})
        except Exception as error:
            named(error, place)
            raise


def _opened(task: Any, call: Any) -> tuple[Any, Any, dict[str, Any]]:
    """Arguments and options of a mapping or a signature."""
    if not isinstance(call, Mapping):
        msg = f"{task.name}: a call is a mapping with submit's keywords or a signature, not {call!r}."
        raise ConfigurationError(msg)
    if "subtask_type" not in call:
        options = dict(call)
        return options.pop("args", ()), options.pop("kwargs", None), options
    if call["task"] != task.name:
        raise ConfigurationError(f"{task.name}: this is a signature of {call['task']}.")
    options = dict(call["options"] or {})
    for name in _OF_A_CANVAS:
        if options.get(name):
            raise ConfigurationError(
                f"{task.name}: this signature is part of a canvas ({name}), which sends it."
            )
    return call["args"], call["kwargs"], options


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
