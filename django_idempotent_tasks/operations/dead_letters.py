"""What a person decides about one dead letter: run it again, put it away, or say how it ended."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Any

from django.utils.translation import gettext as _

from .. import signals
from ..conf import settings
from ..conf.options import Policy
from ..exceptions import ConfigurationError
from ..ledger.encoding import encode_result, given_json
from ..ledger.stores import LedgerStore
from ..messages.message import AGAIN, HEADER, Message
from ..messages.turns import REDRIVEN
from ..models import IdempotencyKey
from ..signals import announce
from ..states import Reason, State
from .tasks import known_task

logger = logging.getLogger("django_idempotent_tasks")

Arguments = tuple[list[Any], dict[str, Any]]

#: What a message remembers of the attempts that failed.
_SPENT = ("retries", "expires")


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether it was carried out; ``problem`` says why not and what to do instead."""

    done: bool
    problem: str = ""


DONE = Decision(done=True)


def redrive(
    store: LedgerStore,
    row: IdempotencyKey,
    *,
    by: str,
    edited: Arguments | None = None,
) -> Decision:
    """FAILED or REVIEW, as ``row`` was read, to PENDING; the sweeper sends it.

    Same key, same call, same downstream keys; attempts, crashes and retries from 0. ``edited`` are
    other arguments, under the same key.
    """
    try:
        text = anew(row, edited)
    except ValueError as error:
        return _refused(str(error).removesuffix("."))
    if text is None:
        return _refused(unsendable(row))
    if not store.redrive(row.digest, token=row.token, message=text):
        return moved_on(store, row)
    tell(row, by=by, using=store.connection.alias)
    return DONE


def tell(row: IdempotencyKey, *, by: str, using: str | None) -> None:
    """Announce that a dead letter was redriven."""
    named = {"digest": row.digest, "token": row.token + 1, "task_id": row.task_id, "by": by}
    announce(signals.redriven, sender=row.task, using=using, **named)


def unsendable(row: IdempotencyKey) -> str:
    """Why a dead letter cannot be redriven that has no message, or none that can be read."""
    if row.message is None:
        return _(
            "nothing of the call is stored (a sensitive task, or arguments above MAX_PAYLOAD): send it again"
            " where it came from, or resolve or discard this one"
        )
    return _(
        "its stored message cannot be read, or is above MAX_PAYLOAD: send the call again where it came from"
    )


def discard(store: LedgerStore, row: IdempotencyKey) -> Decision:
    """Put a dead letter away: its record stays until it is pruned, and a later call may have the key."""
    retention = settings().dead_letter_retention
    if not store.discard(row.digest, token=row.token, retention=retention):
        return moved_on(store, row)
    return DONE


def resolve(store: LedgerStore, row: IdempotencyKey, result: object) -> Decision:
    """Say that the work is done, with this result (JSON): SUCCEEDED, replayed to duplicates.

    Raises ValueError for a result that cannot be stored.
    """
    text, is_stored = encode_result(result, limit=settings().max_result)
    if not is_stored:
        msg = f"The result must be JSON of at most {settings().max_result} characters."
        raise ValueError(msg)
    given_json(text or "null")
    done = store.resolve(
        row.digest,
        token=row.token,
        result=text,
        reason=Reason.DONE,
        retention=_retention(row.task),
        window=settings().redelivery_window,
    )
    return DONE if done else moved_on(store, row)


def anew(row: IdempotencyKey, edited: Arguments | None = None) -> str | None:
    """The stored message as that of a first attempt, perhaps with other arguments; None without one.

    Raises ValueError for arguments that cannot be stored, or be read again.
    """
    try:
        message = Message.decode(row.task, row.message or "")
    except ValueError:
        return None
    options = {name: value for name, value in message.options.items() if name not in _SPENT}
    headers = options.get("headers")
    if isinstance(headers, dict) and isinstance(headers.get(HEADER), dict):
        header = {name: value for name, value in headers[HEADER].items() if name != AGAIN}
        header[REDRIVEN] = row.token + 1  # later than every copy, and than a revoke that workers remember
        options["headers"] = {**headers, HEADER: header}
    message = replace(message, options=options)
    if edited is None:
        return message.encode(limit=settings().max_payload)
    try:
        text = replace(message, args=edited[0], kwargs=edited[1]).text_or_raise()
    except ConfigurationError as error:
        raise ValueError(str(error)) from error
    given_json(text)
    return text


def known_problem(row: IdempotencyKey) -> str | None:
    """Why a redrive is likely to fail again, as far as this process can tell; None where it cannot."""
    task = known_task(row.task)
    if task is None:
        return _("no task of this name is known here; it may have been renamed or removed")
    policy: Policy | None = getattr(task, "idempotency_policy", None)
    if policy is None or row.message is None:
        return None
    try:
        message = Message.decode(row.task, row.message)
        policy.key_rules.binder(message.args, message.kwargs)
    except Exception as error:  # noqa: BLE001  of any version, with any arguments
        return _("its arguments do not fit the task as it is now (%(error)s)") % {"error": error}
    return None


def _retention(task: str) -> int:
    policy = getattr(known_task(task), "idempotency_policy", None)
    return settings().retention if policy is None else int(policy.retention)


def _refused(problem: str) -> Decision:
    return Decision(done=False, problem=problem)


def moved_on(store: LedgerStore, row: IdempotencyKey) -> Decision:
    """Somebody else was first, and has the key now or has decided already: say who."""
    now = IdempotencyKey.objects.using(store.connection.alias).filter(digest=row.digest).first()
    if now is None:
        return _refused(_("its key is gone: it was pruned meanwhile"))
    state = State(now.state).name
    if now.discarded_at is not None:
        return _refused(_("it was discarded meanwhile"))
    words = _("its key has moved on and is %(state)s now (call %(holder)s): look again")
    return _refused(words % {"state": state, "holder": now.runner_task_id or now.task_id})
