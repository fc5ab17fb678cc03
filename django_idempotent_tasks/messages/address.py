"""Finds where a delivery came from, so that its copy goes there, and reads countdown, eta and expires."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, tzinfo
from typing import Any

from celery import Celery
from celery.utils.quorum_queues import detect_quorum_queues
from kombu.transport.native_delayed_delivery import MAX_NUMBER_OF_BITS_TO_USE

from ..conf.values import LONGEST

#: Exchanges and queues in which a message waits on its way to a quorum queue. A delivery names the last of
#: them, and its routing key begins with the delay, a dot after each bit.
_WAITING = "celery_delayed_"
_DELAY = re.compile(rf"(?:[01]\.){{{MAX_NUMBER_OF_BITS_TO_USE}}}")
#: Seconds: a shorter delay may be below one second by the time that Celery computes it.
_SHORT = 1.5


def address_of(app: Celery, info: Mapping[str, Any]) -> dict[str, Any]:
    """The options of ``apply_async`` that send to where this delivery came from.

    They name the queue where it is known: with an exchange alone Celery delays on the default queue.
    """
    exchange, key = info.get("exchange"), info.get("routing_key")
    if exchange == "" and key:
        return {"queue": key}
    name = _queue_of(app, exchange, key)
    return {"queue": name} if name else {"exchange": exchange, "routing_key": key}


def to_its_queue(app: Celery, options: Mapping[str, Any], info: Mapping[str, Any]) -> Mapping[str, Any]:
    """A retry's options, with the delivery's address where Celery copied its exchange and routing key."""
    place = {name: options.get(name) for name in ("exchange", "routing_key")}
    if options.get("queue") or place != {name: info.get(name) for name in place}:
        return options
    return {**options, **dict.fromkeys(place), **address_of(app, info)}


def _queue_of(app: Celery, exchange: Any, key: Any) -> str | None:
    """The name of the one queue that an exchange and key lead to; None for none, or for several."""
    is_delayed = str(exchange).startswith(_WAITING)
    if is_delayed:
        key = _DELAY.sub("", str(key), count=1)
    found = [
        queue.name
        for queue in app.amqp.queues.values()
        if queue.routing_key == key and (is_delayed or queue.exchange.name == exchange)
    ]
    return str(found[0]) if len(found) == 1 else None


def delayed(app: Celery, options: dict[str, Any], *, countdown: float) -> dict[str, Any]:
    """The options with a delay that Celery takes: on quorum queues at least one second."""
    if countdown > 0:
        options = {**options, "countdown": countdown}
    seconds = _seconds(options, now=app.now)
    if not 0 < seconds < _SHORT or not _is_delayed_by_the_broker(app):
        return options
    return {**options, "eta": None, "countdown": max(seconds, 1.0)}


def moment(value: object, *, tz: tzinfo | None = UTC) -> datetime | None:
    """An ``eta`` or ``expires`` as a datetime with a zone; None for another type.

    Takes a datetime or its ISO text, as a stored message has it. Without a zone it is in ``tz``. Raises
    ValueError for another text.
    """
    found = datetime.fromisoformat(value) if isinstance(value, str) and value else value
    if not isinstance(found, datetime):
        return None
    return found if found.tzinfo else found.replace(tzinfo=tz)


def delay_of(options: Mapping[str, Any], *, now: Callable[[], datetime]) -> float:
    """Seconds until the ``countdown`` or ``eta`` among sending options; 0 without either."""
    if options.get("countdown"):
        return _bounded(float(options["countdown"]))
    if not options.get("eta"):
        return 0.0
    reference = now()
    eta = moment(options["eta"], tz=reference.tzinfo)
    return 0.0 if eta is None else _bounded((eta - reference).total_seconds())


def _bounded(seconds: float) -> float:
    """The seconds, from 0 up to what a date column can hold."""
    return min(max(seconds, 0.0), float(LONGEST))


def _seconds(options: Mapping[str, Any], *, now: Callable[[], datetime]) -> float:
    if not options.get("eta"):
        return float(options.get("countdown") or 0)
    reference = now()  # which costs Celery as much as routing does
    eta = moment(options["eta"], tz=reference.tzinfo)
    return float(options.get("countdown") or 0) if eta is None else (eta - reference).total_seconds()


def _is_delayed_by_the_broker(app: Celery) -> bool:
    return bool(detect_quorum_queues(app, app.connection_for_write().transport.driver_type)[0])
