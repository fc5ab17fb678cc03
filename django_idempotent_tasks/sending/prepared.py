"""Prepares one call: it passes through Celery once, without being published, and is checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from celery.app.task import extract_exec_options  # type: ignore[attr-defined]  # not in the stubs

from ..conf.options import Policy
from ..messages.header import Carried
from ..messages.stamping import Send, stamp
from .checked import check_options
from .reservation import Reservation


@dataclass(frozen=True, slots=True)
class Sending:
    """One call as it reached our ``apply_async``; ``send`` is the ``apply_async`` of the next class."""

    send: Send
    args: Any
    kwargs: Any
    task_id: str
    own: Carried
    options: Mapping[str, Any]


def prepare(task: Any, policy: Policy, sending: Sending) -> Reservation:
    """The call, stamped and checked more closely than by Celery, since it may be sent much later.

    Raises :class:`ConfigurationError` naming the option.
    """
    # Twice: before the project's classes see the options, and after they may have changed them.
    check_options(task, {**extract_exec_options(task), **sending.options})
    message = stamp(task, sending.send, sending.args, sending.kwargs, sending.task_id, sending.options)
    check_options(task, message.options)
    return Reservation(task, policy, message, sending.own)
