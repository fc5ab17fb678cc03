"""Returns or raises the recorded outcome of a finished key, or sends the replacement of a replaced call."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from celery import Task
from celery.exceptions import Ignore
from kombu.utils import json as wire

from ..conf import settings
from ..exceptions import OuterTransaction, RecordedError, ResultNotStored
from ..ledger.encoding import decode_result
from ..ledger.values import Answer, Claim
from ..states import Reason

#: How often a replacement may be replaced in turn, before that counts as a circle.
DEEPEST = 50

_GUARDED = "idempotency_policy"


def replay(task: Any, answer: Answer) -> Any:
    """The result of a completed key.

    Raises :class:`ResultNotStored`, ``Ignore`` where the body did, and what :func:`go_on` raises.
    """
    match answer.reason:
        case Reason.IGNORED:
            raise ignored(task, Ignore())
        case Reason.REPLACED:
            return go_on(task, answer.result)
        case Reason.RESULT_NOT_STORED:
            msg = f"{task.name} is completed; its result was not stored."
            raise ResultNotStored(msg)
    return decode_result(answer.result)


def ignored(task: Any, ignore: Ignore) -> Exception:
    """What Celery sees of a body that raised ``Ignore``: an error in a chord, which would wait for ever."""
    if task.request.chord is None:
        return ignore
    return ResultNotStored(f"{task.name} raised Ignore, so its chord gets no value from it.")


def go_on(task: Any, text: str | None) -> Any:
    """Send the replacement of a key's task in the place of this call too; raises ``Ignore``.

    A leased task sends the replacement before its own call completes: for that call it is not sent again.
    """
    kept = decode_result(text)
    is_own, nesting = kept["id"] == task.request.id, _nesting(task)
    if nesting > (kept["nesting"] if is_own else DEEPEST):
        msg = f"{task.name} was replaced, and its replacement leads back to its own key."
        raise RecordedError(msg)
    signature = kept["signature"]
    if is_own and (signature is None or task.idempotency_policy.mode == "leased"):
        raise Ignore
    if signature is None:
        msg = f"{task.name} was replaced; its replacement was not stored."
        raise ResultNotStored(msg)
    return Task.replace(task, task.app.signature(signature))


def replacement_text(task: Any, sig: Any) -> tuple[str, bool]:
    """A replacement as the row of the replaced task keeps it, and whether its signature is in the text.

    The signature is left out where a result or an argument may not be stored, or it is not JSON, or above
    MAX_PAYLOAD.
    """
    kept = {"id": task.request.id, "nesting": _nesting(task), "signature": None}
    if task.idempotency_policy.store_result and not any(
        _is_sensitive(task, call) for call in _calls(task, sig)
    ):
        try:
            text = str(wire.dumps({**kept, "signature": sig}))
        except (TypeError, ValueError, RecursionError):
            text = None
        if text is not None and len(text) <= settings().max_payload:
            return text, True
    return str(wire.dumps(kept)), False


def check_replacement(task: Any, sig: Any, claim: Claim, *, in_place: bool) -> None:
    """Raise RuntimeError for a replacement that would wait for the key of the task that it replaces.

    ``in_place`` is whether the replacement itself may be a call of that key, which goes on as a retry does.
    """
    if any(_has_key(task, call, claim) for call in _calls(task, sig) if not (in_place and call is sig)):
        msg = f"{task.name}: its replacement has a call of its own key {task.idempotency.key!r} in it"
        raise RuntimeError(f"{msg}, which would wait for itself. Use another key there.")


def _nesting(task: Any) -> int:
    return int(task.request.get("replaced_task_nesting") or 0)


def _calls(task: Any, part: Any) -> Iterator[Any]:
    """The calls of guarded tasks anywhere in a signature."""
    if isinstance(part, dict):
        name = part.get("task")
        if isinstance(name, str) and hasattr(task.app.tasks.get(name), _GUARDED):
            yield part
        part = list(part.values())
    if isinstance(part, list | tuple):
        for inner in part:
            yield from _calls(task, inner)


def _is_sensitive(task: Any, call: Any) -> bool:
    return bool(task.app.tasks[call["task"]].idempotency_policy.sensitive)


def _has_key(task: Any, call: Any, claim: Claim) -> bool:
    if call["task"] != task.name:
        return False
    options = call.get("options") or {}
    stated = {name: options[name] for name in ("idempotency_key", "scope") if name in options}
    try:
        identity = task.idempotency_identity(call.get("args"), call.get("kwargs"), **stated)
    except Exception:  # noqa: BLE001  arguments may be missing yet; a key function may raise anything
        return False
    return bool(identity.digest == claim.digest)


def replaced_in_a_transaction(name: str) -> OuterTransaction:
    """The error of a task that called ``replace()`` where its replacement's reservation is rolled back."""
    return OuterTransaction(
        f"{name} called replace() inside a transaction or a step, which replace() rolls back"
        " together with the reservation of its replacement. Call it outside."
    )
