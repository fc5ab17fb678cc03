"""Recognises a call that Celery takes for a revoked one, because its child was killed for another call.

Celery ends a running call by a signal to its child: where somebody revokes and terminates it, at a cold
shutdown, and when the connection to the broker is lost. The child may have ended that call meanwhile, and
begun the next one. Celery then acknowledges the message of the next one and announces it as revoked, though
nobody has asked for that: it goes by the child alone (``_job_terminated`` of billiard's pool).
"""

from __future__ import annotations

from typing import Any

from billiard.einfo import ExceptionInfo
from billiard.exceptions import Terminated, WorkerLostError
from celery.utils.functional import maybe_list
from celery.worker.state import revoked, revoked_stamps


class KilledForAnother(WorkerLostError):
    """The child was killed for another call."""


def is_bystander(request: Any, error: BaseException) -> bool:
    """Whether a call has ended with its child, and nobody has revoked or cancelled it."""
    is_meant = request._already_revoked or getattr(request, "_already_cancelled", False)  # noqa: SLF001  set by Celery
    return isinstance(error, Terminated) and not (is_meant or _is_revoked(request))


def _is_revoked(request: Any) -> bool:
    """Whether somebody has revoked the call, by id or stamp; Celery may have failed to announce it."""
    return request.id in revoked or any(
        stamp in maybe_list(stamps)
        for name, stamps in revoked_stamps.items()
        for stamp in maybe_list(request.stamps.get(name)) or ()
    )


def killed_for_another() -> ExceptionInfo:
    """What Celery is told instead: a lost child, whose message it puts back."""
    try:
        raise KilledForAnother("The child was killed for the call that it ran before this one.")  # noqa: TRY301  it needs a traceback
    except KilledForAnother:
        return ExceptionInfo()
