"""Makes a call of one occurrence: its key is the periodic task and the nominal time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import NAMESPACE_OID, uuid5

from ..conf import settings
from ..exceptions import ConfigurationError
from ..identity.key import BEAT, Identity, sent_only, stated_digest
from ..ledger.values import Call
from ..messages.header import to_header
from ..messages.message import HEADER, SENT_ONLY, Message
from .entry import CursorEntry

#: Seconds after which the sweeper sends a plain task's occurrence that beat has reserved and not sent:
#: no worker claims its key, so the sweeper need not wait for a queue.
UNSENT = 30


@dataclass(frozen=True, slots=True)
class Occurrence:
    """The call for the ledger, the message for the broker, and the seconds until the sweeper looks at it."""

    due: datetime
    call: Call
    message: Message
    wait: int


def occurrence(entry: CursorEntry, due: datetime, *, now: datetime, is_asked: bool = False) -> Occurrence:
    """The occurrence at ``due``; ``is_asked``: a person runs it, so it is none of the schedule's.

    Raises ConfigurationError for a message that cannot be stored, and for a task with a wrong option.
    """
    key_text = f"{BEAT}{entry.model.pk}:{'now:' if is_asked else ''}{due.isoformat()}"
    digest = stated_digest(entry.task, idempotency_key=key_text, scope=None)
    task_id = str(uuid5(NAMESPACE_OID, digest.hex))
    task = entry.app.tasks.get(entry.task)
    is_guarded = _is_guarded(task, entry)
    identity = Identity(digest, None, key_text, None)
    header = to_header(identity, task_name=entry.task, task_id=task_id, reserved=is_guarded)
    if not is_guarded:
        # The row's key differs from the key in the header: perhaps only the workers know that the task is
        # guarded, and then they claim the header's key.
        identity = Identity(sent_only(digest), None, key_text, None)
        header[SENT_ONLY] = True
    message = _message(entry, task, due, now, {"task_id": task_id}, header)
    wait = settings().republish_after
    return Occurrence(
        due,
        Call(identity, entry.task, task_id, message.text_or_raise()),
        message,
        wait if is_guarded else min(wait, UNSENT),
    )


def _is_guarded(task: Any, entry: CursorEntry) -> bool:
    if not getattr(task, "idempotency_guarded", False):
        return False
    error = getattr(task, "idempotency_error", None)
    if error is not None:
        raise error
    if task.idempotency_policy.sensitive and (entry.args or entry.kwargs):
        msg = (
            f"{entry.task} has sensitive arguments, which are not stored: beat cannot send them. Pass an id."
        )
        raise ConfigurationError(msg)
    return True


def _message(
    entry: CursorEntry,
    task: Any,
    due: datetime,
    now: datetime,
    options: dict[str, Any],
    header: dict[str, Any],
) -> Message:
    """The message as ``celery beat`` sends it: options of the task, then those of the entry."""
    if task is not None:
        own = dict(task._get_exec_options())  # noqa: SLF001  as Celery's own apply_async
        options = {**own, "ignore_result": task.ignore_result, **options}
    options = {**options, **entry.options, "expires": entry.expires_at(now)}
    if task is not None:
        options["shadow"] = task.shadow_name(entry.args, entry.kwargs, options)
    options["headers"] = {
        "celery_beat_task": True,
        **(options.get("headers") or {}),
        "periodic_due_at": due.isoformat(),
        HEADER: header,
    }
    given = {name: value for name, value in options.items() if value is not None}
    return Message.to_reserve(entry.task, entry.args, entry.kwargs, given)
