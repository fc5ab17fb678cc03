"""Files a call as a dead letter by hand: its work cannot be done now and must not be forgotten."""

from __future__ import annotations

from typing import Any, NoReturn
from uuid import uuid4

from ..errors.raised import anew
from ..exceptions import ConfigurationError, DuplicateTask
from ..identity.arguments import check_given
from ..identity.rules import UNSET
from ..ledger import orphans
from ..ledger.atomic import AtomicLedger, Recorded
from ..ledger.failures import failure_of
from ..ledger.rules import IN_PROGRESS
from ..ledger.stores import get_store
from ..ledger.values import Call, Failure, Refused
from ..messages.header import to_header
from ..messages.message import HEADER, Message
from ..messages.stamping import stamp
from ..models import DeadLetter
from ..running.categories import category_of_error, category_shown
from ..states import Category, Reason, State


def dead_letter(
    task: Any,
    args: Any = (),
    kwargs: Any = None,
    error: BaseException | str = "filed by hand",
    *,
    idempotency_key: object = UNSET,
    scope: object = UNSET,
) -> DeadLetter:
    """File a call of a guarded task as a dead letter, to be redriven, resolved or discarded.

    The call is not sent. An ``error`` that the task's rules give to a person (``ManualReview``,
    ``review_errors``, ``classify``) is filed in REVIEW. Belongs to the open transaction, if there is
    one. Raises :class:`DuplicateTask` when the key has another outcome or is being worked on,
    :class:`KeyReused` and :class:`InvalidKey` as sending does, and :class:`ConfigurationError` for a
    task that is not guarded, or that may not store its arguments.
    """
    if not getattr(task, "idempotency_guarded", False):
        msg = f"{task.name} has no key to file: give it base=IdempotentTask."
        raise ConfigurationError(msg)
    if task.idempotency_error is not None:
        raise anew(task.idempotency_error)
    problem = error if isinstance(error, BaseException) else RuntimeError(error)
    call = _call(task, args, kwargs, idempotency_key, scope)
    reason = _reason(task, problem)
    failure = failure_of(problem, task=task.name, category=category_shown(problem, reason))
    return _filed(task, call, reason, failure)


def _call(task: Any, args: Any, kwargs: Any, key: object, scope: object) -> Call:
    policy = task.idempotency_policy
    if policy.sensitive:
        msg = f"{task.name} is sensitive: nothing of its calls is stored, so none can be filed."
        raise ConfigurationError(msg)
    check_given(args, kwargs, task=task.name)
    task_id = str(uuid4())
    identity = task.idempotency_identity(args, kwargs, task_id=task_id, idempotency_key=key, scope=scope)
    header = to_header(identity, task_name=task.name, task_id=task_id)
    text = _message(task, args, kwargs, task_id, header).text_or_raise()
    return Call(identity, task.name, task_id, text)


def _message(task: Any, args: Any, kwargs: Any, task_id: str, header: dict[str, object]) -> Message:
    """The message as this process would send it now; a redrive sends it with the stamps of this process."""
    options = {"headers": {HEADER: header}}
    if task.app.conf.task_always_eager:
        args, kwargs = task.idempotency_dumped(args, kwargs)
        return Message.of(task.name, args, kwargs, {"task_id": task_id, **options})
    return stamp(task, task.apply_async, args, kwargs, task_id, options).with_header(header)


def _reason(task: Any, error: BaseException) -> Reason:
    is_for_review = category_of_error(error, task.idempotency_policy) is Category.MANUAL_REVIEW
    return Reason.IN_DOUBT if is_for_review else Reason.PERMANENT


def _refuse(ledger: AtomicLedger, call: Call) -> NoReturn:
    """Raise DuplicateTask, which names the call that has the key; KeyReused where its payload differs."""
    entry, verdict = ledger.look(call, owner="")
    outcome = ledger.refusal(verdict, entry, call)
    reason, holder = (outcome.reason, outcome.holder) if isinstance(outcome, Refused) else (IN_PROGRESS, "")
    msg = (
        f"{call.task} {call.identity.key_text!r} was not filed: {reason} as call {holder or 'unknown'}."
        " Look at its key."
    )
    raise DuplicateTask(msg, reason=reason, task_id=holder)


def _filed(task: Any, call: Call, reason: Reason, failure: Failure) -> DeadLetter:
    store = get_store()
    state = State.REVIEW if reason is Reason.IN_DOUBT else State.FAILED
    ledger = AtomicLedger(store, task.idempotency_policy)
    if orphans.file_by_hand(ledger, call, state=state, reason=reason, failure=failure) is not Recorded.DONE:
        _refuse(ledger, call)
    return DeadLetter.objects.using(store.connection.alias).get(digest=call.identity.digest)
