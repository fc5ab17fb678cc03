"""Shows a call to HTTP clients as a job, whose id is the task id of the accepted call."""

from __future__ import annotations

from datetime import datetime
from math import isfinite
from typing import Any
from uuid import UUID

from ..conf import settings
from ..ledger import rows
from ..ledger.encoding import decode_error
from ..ledger.moments import database_now, exact
from ..ledger.progress import decode_progress
from ..ledger.stores import get_store
from ..messages.header import task_id_problem
from ..messages.unreadable import Unreadable, parsed
from ..models import AnsweredCall, IdempotencyKey
from ..operations.batch_following import follow_soon
from ..operations.tasks import known_task
from ..states import Reason, State

#: The fewest and the most seconds after which a client may ask again.
SOONEST, LATEST = 1, 10
#: The most seconds between two requests for a job, which may end or report progress at any time.
LOOK = 3

#: Reasons of a success that has no result to show to a client.
_WITHOUT_RESULT = frozenset({Reason.RESULT_NOT_STORED, Reason.IGNORED, Reason.REPLACED, Reason.SENT})


#: How a call ended, and its key, which a later call has now.
Replaced = tuple[AnsweredCall, IdempotencyKey]


def find(task_id: str) -> IdempotencyKey | None:
    """The key of an accepted call; None for an unknown id, or a text that cannot be an id."""
    return None if task_id_problem(task_id) is not None else rows.of_call(task_id)


def find_follow_up(task_id: str) -> IdempotencyKey | None:
    """A call that waits as a follow-up, as the row that it will have; None for an unknown id."""
    return None if task_id_problem(task_id) is not None else rows.of_follow_up(task_id)


def find_replaced(task_id: str) -> Replaced | None:
    """How a call ended whose key a later call has, and that key; None for an unknown id.

    Always two statements, so that the time of the answer reveals nothing.
    """
    if task_id_problem(task_id) is not None:
        return None
    call = rows.ended(task_id)
    key = rows.of_key(UUID(int=0) if call is None else call.digest)
    return (call, key) if call and key else None


def document(key: IdempotencyKey) -> dict[str, Any]:
    """What a client may know of a key's present call. Never a traceback."""
    state = State(key.state)
    return {
        "id": key.task_id,
        "task": key.task,
        "state": state.name.lower(),
        "created": moment_text(key.created_at),
        "started": None
        if state is State.PENDING
        else moment_text(key.started_at),  # a redrive starts the call anew
        "finished": moment_text(key.finished_at),
        "attempt": key.attempts,
        "progress": decode_progress(key.progress),
        "steps": [{"name": step.name, "state": "done"} for step in rows.steps_of(key)],
        "follow_up": _follow_up(key, state),
        **_outcome(state, Reason(key.reason), key.result),
    }


def replaced_document(call: AnsweredCall, key: IdempotencyKey) -> dict[str, Any]:
    """The document of a call that ended before a later call took its key."""
    state = State(call.state)
    return {
        "id": call.task_id,
        "task": key.task,
        "state": state.name.lower(),
        "created": None,
        "started": None,
        "finished": None,
        "attempt": None,
        "progress": None,
        "steps": [],
        "follow_up": None,
        **_outcome(state, Reason(call.reason), call.result),
    }


def cancel(key: IdempotencyKey) -> str:
    """Cancel the key's present call as ``task.cancel`` does; returns the same."""
    task = known_task(key.task)
    if task is not None and hasattr(task, "cancel"):
        return str(task.cancel(task_id=key.task_id))
    store = get_store()  # a task that this process does not know: its result backend is not told
    end = store.cancel_follow_up if key._state.adding else store.cancel  # noqa: SLF001  it has no row yet
    done = end(digest=key.digest, window=settings().redelivery_window, task_id=key.task_id)
    if done:
        follow_soon(store, key.digest)
    return "cancelled" if done else "finishing"


def look_after(key: IdempotencyKey) -> int:
    """Seconds until a request for an unfinished job may return something new."""
    return min(retry_after(key), LOOK)


def retry_after(key: IdempotencyKey | None) -> int:
    """Seconds until the same request may get another answer."""
    opens = None if key is None else key.open_at
    if opens is None:
        return SOONEST
    left = (exact(opens) - exact(database_now(get_store()))).total_seconds()
    return int(min(max(left, SOONEST), LATEST))


def _follow_up(key: IdempotencyKey, state: State) -> dict[str, Any] | None:
    """The call that is run after the present one, and since when it waits: nothing follows what waits."""
    if state not in {State.RUNNING, State.RETRY}:
        return None
    waiting = rows.follow_up_of(key)
    return None if waiting is None else {"id": waiting.task_id, "since": moment_text(waiting.created_at)}


def _outcome(state: State, reason: Reason, text: str | None) -> dict[str, Any]:
    if state is State.SUCCEEDED:
        return {"result": None if reason in _WITHOUT_RESULT or text is None else _plain(text)}
    if state in {State.FAILED, State.REVIEW}:
        return {"error": decode_error(text), "expected": reason is Reason.EXPECTED}
    return {}


def _plain(text: str) -> Any:
    """A stored result as standard JSON: values of other types as text, NaN and Infinity as null.

    None where the result cannot be read.
    """
    try:
        return parsed(text, object_hook=_unwrapped, parse_constant=lambda _name: None, parse_float=_finite)
    except Unreadable:
        return None


def _finite(text: str) -> float | None:
    value = float(text)
    return value if isfinite(value) else None


def _unwrapped(value: dict[str, Any]) -> Any:
    return value["__value__"] if value.keys() == {"__type__", "__value__"} else value


def moment_text(moment: datetime | None) -> str | None:
    """A moment as documents have it: ISO 8601 with its offset."""
    return None if moment is None else exact(moment).isoformat()
