"""Turns the package's signals into counts and times, for whoever keeps them."""

from __future__ import annotations

import time
from datetime import datetime
from typing import Any, Protocol

from celery import current_task

from .. import signals
from ..ledger.values import Claim, Failure
from ..messages.header import HEADER, SENT
from ..messages.turns import redrive_of
from ..states import Reason
from . import instruments as names
from .instruments import Instrument
from .labels import category_label, duty_label, queue_label, reason_label, task_label


class Sink(Protocol):
    """Keeps counts and times; ``labels`` are in the order of the instrument's."""

    def add(self, instrument: Instrument, *labels: str) -> None:
        """Count one."""

    def observe(self, instrument: Instrument, seconds: float, *labels: str) -> None:
        """Keep a time."""


class Listener:
    """Listens for one sink, in any process: sender, worker, sweeper, web."""

    def __init__(self, sink: Sink) -> None:
        self.sink = sink

    def connect(self, uid: str) -> None:
        """Listen. Once for each ``uid``, however often it is called."""
        for signal, receiver in (
            (signals.attempt_started, self._started),
            (signals.key_completed, self._completed),
            (signals.key_failed, self._failed),
            (signals.key_retried, self._retried),
            (signals.dead_lettered, self._dead),
            (signals.duplicate_detected, self._duplicate),
            (signals.would_refuse, self._would_refuse),
            (signals.follow_up_accepted, self._follow_up),
            (signals.lease_lost, self._lost),
            (signals.redriven, self._redriven),
            (signals.leader_changed, self._leads),
        ):
            signal.connect(receiver, weak=False, dispatch_uid=uid)

    def _started(self, sender: str, claim: Claim, **_kwargs: object) -> None:
        """Not as the claim is announced: that of an atomic attempt which fails never is."""
        task = task_label(sender)
        self.sink.add(names.CLAIMS, task)
        if claim.grant.reason is Reason.OWNER_DIED:
            self.sink.add(names.TAKEOVERS, task)
        waited = _waited(claim)
        if waited is not None:
            self.sink.observe(names.WAITS, waited, task, queue_label())

    def _completed(self, sender: str, claim: Claim, **_kwargs: object) -> None:
        task = task_label(sender)
        self.sink.add(names.COMPLETIONS, task)
        self._ran(task, claim)

    def _failed(self, sender: str, claim: Claim, **_kwargs: object) -> None:
        self._ran(task_label(sender), claim)

    def _retried(self, sender: str, claim: Claim, failure: Failure | None, **_kwargs: object) -> None:
        task = task_label(sender)
        self.sink.add(names.RETRIES, task, category_label(None if failure is None else failure.category))
        self._ran(task, claim)

    def _ran(self, task: str, claim: Claim) -> None:
        self.sink.observe(names.RUNS, time.monotonic() - claim.began, task)

    def _dead(self, sender: str, failure: Failure, **_kwargs: object) -> None:
        self.sink.add(names.DEAD, task_label(sender), category_label(failure.category))

    def _duplicate(self, sender: str, reason: str, **_kwargs: object) -> None:
        self.sink.add(names.DUPLICATES, task_label(sender), reason_label(reason))

    def _would_refuse(self, sender: str, reason: str, **_kwargs: object) -> None:
        self.sink.add(names.WOULD_REFUSE, task_label(sender), reason_label(reason))

    def _follow_up(self, sender: str, **_kwargs: object) -> None:
        self.sink.add(names.FOLLOW_UPS, task_label(sender))

    def _lost(self, sender: str, **_kwargs: object) -> None:
        self.sink.add(names.LOSSES, task_label(sender))

    def _redriven(self, sender: str, **_kwargs: object) -> None:
        self.sink.add(names.REDRIVES, task_label(sender))

    def _leads(self, name: str, **_kwargs: object) -> None:
        self.sink.add(names.LEADS, duty_label(name))


def _waited(claim: Claim) -> float | None:
    """The seconds from a call, or its ETA, to this claim, by the clocks of sender and worker.

    None for another attempt than the first, after a redrive, and where the sender has noted no time.
    """
    request: Any = getattr(current_task, "request", None)
    if request is None or claim.grant.attempts != 1:
        return None
    header = vars(request).get(HEADER)
    if not isinstance(header, dict) or header.get("id") != claim.call.task_id or redrive_of(header):
        return None
    sent = header.get(SENT)
    if type(sent) is not float:
        return None
    began = time.time() - (time.monotonic() - claim.began)
    return max(began - max(sent, _eta(request)), 0.0)


def _eta(request: Any) -> float:
    """The moment before which the call was not to run; 0 for none."""
    try:
        return datetime.fromisoformat(request.eta).timestamp()
    except (TypeError, ValueError):
        return 0.0
