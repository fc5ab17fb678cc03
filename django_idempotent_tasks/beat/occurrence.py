"""One occurrence of a periodic task as a call: its key is the periodic task and its nominal time."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import NAMESPACE_OID, uuid5

from ..header import to_header
from ..identity import stated_digest
from ..message import HEADER, SENT_ONLY, Message
from ..outcomes import Call, Identity
from .entry import CursorEntry


def occurrence(entry: CursorEntry, due: datetime, *, now: datetime, limit: int) -> tuple[Call, Message]:
    """The call and the message of the occurrence at ``due``.

    Raises ValueError for arguments or options that are not JSON.
    """
    key_text = f"beat:{entry.model.pk}:{due.isoformat()}"
    digest = stated_digest(entry.task, idempotency_key=key_text, scope=None)
    identity = Identity(digest, None, key_text, None)
    task_id = str(uuid5(NAMESPACE_OID, digest.hex))
    task = entry.app.tasks.get(entry.task)
    header = to_header(identity, task_name=entry.task, task_id=task_id, reserved=True)
    if not getattr(task, "idempotency_guarded", False):
        header[SENT_ONLY] = True
    options = _options(entry, task, now) | {"task_id": task_id}
    options["headers"] = {
        **(options.get("headers") or {}),
        "periodic_due_at": due.isoformat(),
        HEADER: header,
    }
    message = Message.to_reserve(entry.task, entry.args, entry.kwargs, options)
    text = message.encode(limit=limit)
    if text is None:
        msg = f"{message.not_json() or 'its message'} is not JSON, or above MAX_PAYLOAD"
        raise ValueError(msg)
    return Call(identity, entry.task, task_id, text), message


def _options(entry: CursorEntry, task: Any, now: datetime) -> dict[str, Any]:
    """Those of the task, then those of the entry, as ``celery beat`` sends it."""
    of_task = {} if task is None else dict(task._get_exec_options())  # noqa: SLF001  Celery's own apply_async
    options = {**of_task, **entry.options}
    expires = entry.expires_at(now)
    if expires is not None:
        options["expires"] = expires
    return {name: value for name, value in options.items() if value is not None}
