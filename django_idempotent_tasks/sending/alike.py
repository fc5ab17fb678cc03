"""Prepares many calls of one task: the first passes through Celery, those that are like it get its form."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from weakref import WeakKeyDictionary

from django.db import connections

from ..conf import settings
from ..conf.options import Policy
from ..exceptions import ConfigurationError
from ..identity.arguments import check_given
from ..identity.key import Identity
from ..ledger.ledger import Ledger
from ..ledger.values import Call
from ..messages.alike import treats_alike
from ..messages.header import HEADER, is_in_canvas
from ..messages.message import Message
from ..messages.mould import Cast, Mould
from ..states import State
from .listed import Form, Later, Listed
from .prepared import Sending, prepare
from .reservation import Reservation
from .result import AcceptedResult
from .submission import Submission

#: What a call may say for itself and yet be like the others.
_OWN = frozenset({"task_id", "idempotency_key", "scope"})
#: What belongs to the place of a call in a canvas, which sends it itself.
_OF_A_CANVAS = ("chain", "chord", "group_id")

#: The two lower bits of a hexadecimal digit, below those that say of which variant an id is.
_VARIANTS = {digit: "89ab"[int(digit, 16) % 4] for digit in "0123456789abcdef"}

Through = Callable[[Callable[..., Any], Any, Any, dict[str, Any]], Any]


#: By task, of single calls: the mould, its ledger, and what both depend on.
_of_tasks: WeakKeyDictionary[Any, tuple[tuple[Any, ...], Mould, Ledger]] = WeakKeyDictionary()


def prepared(task: Any, policy: Policy, sending: Sending) -> Reservation:
    """A single call, stamped and checked; in the form of an earlier one that it is like."""
    if not _is_plain(task, policy, sending):
        return prepare(task, policy, sending)
    depends = _depends(task, policy)
    known = _known(task, depends)
    if known is not None:
        mould, ledger = known
        made = mould.cast(sending.own.identity, sending.task_id, sending.args, sending.kwargs)
        if made is not None:
            return AlikeReservation(task, ledger, sending.own.identity, sending.task_id, *made)
    reservation = prepare(task, policy, sending)
    new = None if reservation.delay else Mould.of(task, reservation.message, reservation.identity)
    if new is not None:
        _of_tasks[task] = depends, new, reservation.ledger
    return reservation


def _depends(task: Any, policy: Policy) -> tuple[Any, ...]:
    """What the form of a task's single calls depends on."""
    connection = connections[settings().database]  # this thread's, which somebody may have replaced
    return task.app.thread_oid, dict(task.app.conf.changes), policy, settings(), connection


def _known(task: Any, depends: tuple[Any, ...]) -> tuple[Mould, Ledger] | None:
    """The form of an earlier call of this task without options, where the next one has it too."""
    known = _of_tasks.get(task)
    return known[1:] if known is not None and known[0] == depends and treats_alike(task) else None


def _is_plain(task: Any, policy: Policy, sending: Sending) -> bool:
    """Whether a call has no options but its own identity, and belongs to no other."""
    if policy.follows or policy.debounce or policy.sensitive or task.app.current_worker_task is not None:
        return False
    own = {name: value for name, value in sending.options.items() if value is not None}
    return (
        own.keys() == {"headers"}
        and own["headers"].keys() == {HEADER}
        and not is_in_canvas(sending.own.header)
    )


class Preparing:
    """Calls on their way in. ``through`` sends one through the task's ``apply_async``."""

    def __init__(self, task: Any, policy: Policy, options: Mapping[str, Any], through: Through) -> None:
        self._task = task
        self._options = options
        self._through = through
        self._scope = {"scope": options["scope"]} if "scope" in options else {}
        self._ids = task_ids()
        #: Of calls whose keys are made of plain arguments.
        self._listing: Form | None = None
        # A call that others put off is kept by its own time, and a header may carry another call's identity.
        self._may_be_alike = not (policy.follows or policy.debounce or options.get("headers"))
        self._form: tuple[Mould, Ledger] | None = None
        is_single = self._may_be_alike and options.keys() <= {"scope"} and not policy.sensitive
        #: What the form of these calls depends on, if it is that of the task's single calls.
        self._depends = _depends(task, policy) if is_single and task.app.current_worker_task is None else None
        known = _known(task, self._depends) if self._depends else None
        if known is not None:
            self._take(known)

    def prepared(self, call: Mapping[str, Any]) -> Reservation | Listed:
        """The call, stamped and checked. Raises as ``submit`` does."""
        args, kwargs, own = opened(self._task, call)
        if self._listing is not None and (not own or own.keys() == {"task_id"}):
            check_given(args, kwargs, task=self._task.name)
            listed = self._listing.listed(args or (), kwargs or {}, self._id_of(own))
            if listed is not None:
                return listed
        is_alike = self._may_be_alike and own.keys() <= _OWN
        found = self._alike(args, kwargs, own) if is_alike and self._form else None
        return found or self._single(args, kwargs, own, is_alike=is_alike)

    def _id_of(self, own: Mapping[str, Any]) -> str:
        given = own.get("task_id")
        return str(self._task.idempotency_task_id(given)) if given else next(self._ids)

    def _single(self, args: Any, kwargs: Any, own: dict[str, Any], *, is_alike: bool) -> Reservation:
        reservation: Reservation = self._through(prepare, args, kwargs, {**self._options, **own})
        if is_alike and self._form is None:
            mould = Mould.of(self._task, reservation.message, reservation.identity)
            self._may_be_alike = mould is not None and reservation.delay == 0
            if mould is not None and self._may_be_alike:
                self._take((mould, reservation.ledger))
                if self._depends:
                    _of_tasks[self._task] = self._depends, mould, reservation.ledger
        return reservation

    def _take(self, form: tuple[Mould, Ledger]) -> None:
        """Give this form to the calls that follow."""
        self._form = form
        self._listing = Form.of(self._task, *form, self._scope.get("scope"))

    def _alike(self, args: Any, kwargs: Any, own: Mapping[str, Any]) -> Reservation | None:
        """The call in the form of the first one; None where that does not do."""
        task = self._task
        assert self._form is not None  # noqa: S101  asked before
        mould, ledger = self._form
        check_given(args, kwargs, task=task.name)
        task_id = self._id_of(own)
        stated = {**self._scope, **{name: own[name] for name in ("idempotency_key", "scope") if name in own}}
        identity = task.idempotency_identity(args, kwargs, task_id=task_id, **stated)
        made = mould.cast(identity, task_id, args, kwargs)
        return None if made is None else AlikeReservation(task, ledger, identity, task_id, *made)


class AlikeReservation(Reservation):
    """A call in the form of another one, whose options it has: it is due at once."""

    delay = 0.0
    is_in_canvas = False
    is_far = False

    def __init__(
        self, task: Any, ledger: Ledger, identity: Identity, task_id: str, text: str, cast: Cast
    ) -> None:
        self.task = task
        self.ledger = ledger
        self.identity = identity
        self.task_id = task_id
        self.call = Call(identity, task.name, task_id, text)
        self.cast, self.message = cast, cast.sample
        self.is_ignored = bool(cast.sample.options.get("ignore_result"))
        if '"__type__"' in text:
            self._check_readable(text)

    def to_publish(self) -> Message | Cast:
        """The message to send."""
        return self.cast

    def accepted(self, result: AcceptedResult | None = None) -> Submission:
        """What ``submit`` says of it; its result is made when somebody asks."""
        later: Any = Later(self.task, self.task_id, self.identity.digest.hex, self.is_ignored)
        return Submission(result or later, state=State.PENDING, key=self.identity.key_text, created=True)


def task_ids() -> Iterator[str]:
    """Random task ids as Celery makes them; the system is asked for the bits of a hundred at a time."""
    while True:
        drawn = os.urandom(16 * 100).hex()
        for at in range(0, len(drawn), 32):
            bits = drawn[at : at + 32]
            yield f"{bits[:8]}-{bits[8:12]}-4{bits[13:16]}-{_VARIANTS[bits[16]]}{bits[17:20]}-{bits[20:]}"


def opened(task: Any, call: Any) -> tuple[Any, Any, dict[str, Any]]:
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
