"""Prepares the call that comes after a batch: it is kept with the batch, and reserved when that ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from celery import Celery, Signature
from celery.app.task import extract_exec_options  # type: ignore[attr-defined]  # not in the stubs
from celery.exceptions import NotRegistered

from ..exceptions import ConfigurationError
from ..ledger.batches import prepared
from .alike import opened
from .prepared import prepare
from .reservation import Reservation


def prepared_callback(given: Any, batch: UUID, purpose: str, *, app: Celery, scope: str | None) -> str | None:
    """The text of the call that a signature asks for; the batch's id is its first argument.

    Its key comes from the batch, so that there is one such call for a batch. An immutable signature
    (``.si()``) keeps its own arguments. Raises ConfigurationError for what is no signature of a guarded task,
    and for a delay or an expiry in seconds, which would be over before the batch has ended.
    """
    if given is None:
        return None
    signature = _signature(given, purpose, app)
    task = _task(signature, purpose)
    args, kwargs, options = opened(task, signature)
    _check_times({**extract_exec_options(task), **options}, purpose)
    if not signature.immutable:
        args = (str(batch), *args)
    key = {"idempotency_key": f"{batch.hex}:{purpose}", "scope": scope}
    _policy, through = task.idempotency_reserving()
    reservation: Reservation = through(prepare, args, kwargs, {**options, **key})
    return prepared(reservation.call)


def _check_times(options: Mapping[str, Any], purpose: str) -> None:
    for name in ("countdown", "expires"):
        if isinstance(options.get(name), int | float):
            raise ConfigurationError(
                f"{purpose}: its {name!r} would be counted from the submission, not from the end of the"
                " batch. Leave it out; the callback may send a call that has it."
            )


def _signature(given: Any, purpose: str, app: Celery) -> Signature[Any]:
    if isinstance(given, dict) and "task" in given and not given.get("subtask_type"):
        return Signature.from_dict(given, app=app)
    msg = f"{purpose} is a signature of one guarded task, such as finished.s(), not {type(given).__name__}."
    raise ConfigurationError(msg)


def _task(signature: Signature[Any], purpose: str) -> Any:
    try:
        task = signature.type
    except NotRegistered as error:
        raise ConfigurationError(f"{purpose}: no task {error} is registered here.") from None
    if not getattr(task, "idempotency_guarded", False):
        name = signature["task"]
        msg = f"{purpose}: {name} is not guarded. With base=IdempotentTask it runs once for the batch."
        raise ConfigurationError(msg)
    return task
