"""Publishes a stored message with exactly the headers that the row has.

Celery's own ``send_task`` builds the message. An app's own ``send_task``, wrappers of instruments and the
publish signals are left out: they ran when the call was sent, in the process that sent it.

A caller with many messages for one producer gives all of them to one :func:`as_stored`, which keeps what is
the same for each: a setting costs Celery as much as the JSON text of a message, and a declaration costs
kombu twice as much although it sends nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from inspect import unwrap
from typing import Any

from celery import Celery
from celery.utils.saferepr import saferepr
from kombu import Queue
from kombu.common import Broadcast

#: Arguments of kombu's ``Producer.publish`` that are neither headers nor properties.
_OF_ONE_SENDING = ("serializer", "compression", "timeout", "confirm_timeout")

#: How deep Celery 5.6 describes arguments, where it is no setting yet.
_LEVELS = 3


def as_stored(app: Celery) -> Callable[..., Any]:
    """``app.send_task`` for messages whose ``headers`` are complete: for one, or for all of one producer."""
    send: Any = unwrap(Celery.send_task)
    return send.__get__(_App(app))  # type: ignore[no-any-return]


def is_rpc(app: Celery) -> bool:
    """Whether results go to a queue of the sender, which must exist before the message goes out."""
    return str(app.conf.result_backend or "").startswith("rpc")


def usual_reprs(amqp: Any, conf: Any, args: Any, kwargs: Any) -> dict[str, str]:
    """The descriptions of the arguments for monitors, as Celery makes them."""
    levels = getattr(conf, "task_repr_maxlevels", _LEVELS)
    return {
        "argsrepr": saferepr(args or (), amqp.argsrepr_maxsize, maxlevels=levels),
        "kwargsrepr": saferepr(kwargs or {}, amqp.kwargsrepr_maxsize, maxlevels=levels),
    }


class _Settings:
    """The app's settings, each looked up once."""

    def __init__(self, conf: Any) -> None:
        self._conf = conf

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._conf, name)
        setattr(self, name, value)
        return value


class _NoBackend:
    """A result backend without subscriptions: whoever waits for a result subscribes to it."""

    def on_task_call(self, _producer: Any, _task_id: str) -> None:
        """Do nothing when Celery sends a message."""


class _NoResult:
    """The result of ``send_task``, which nobody reads."""

    def __init__(self, _task_id: str) -> None:
        """Do nothing; Celery sets the attribute ``ignored`` afterwards."""


class _App:
    """An app as Celery's ``send_task`` sees it: no task of this process is the sender."""

    current_worker_task = None
    AsyncResult = _NoResult

    def __init__(self, app: Celery) -> None:
        self._app = app
        self.conf = _Settings(app.conf)
        self.amqp = _Amqp(self, app.amqp)
        self.backend = app.backend if is_rpc(app) else _NoBackend()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._app, name)


class _Amqp:
    """The app's AMQP, which sends without a publish signal."""

    def __init__(self, app: _App, amqp: Any) -> None:
        self._app = app
        self._amqp = amqp
        #: Celery asks ``amqp.router`` for the route.
        self.router = self
        self._router = copy(amqp.router)
        self._router.app = app
        #: The declared queues by ``id()``: a router may make another queue of the same name.
        self._declared: dict[int, Queue] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._amqp, name)

    def route(self, options: dict[str, Any], *call: Any) -> Any:
        """The stored address; asks the project's routers where the message has none."""
        if options.get("queue") or options.get("exchange"):
            return self._router.expand_destination(dict(options))
        return self._router.route(options, *call)

    def create_task_message(self, *call: Any, **options: Any) -> Any:
        """Build as Celery does, but look up only once how long the descriptions of arguments may be."""
        if options.get("argsrepr") is None and options.get("kwargsrepr") is None:
            _task_id, _name, args, kwargs, *_more = call
            options |= usual_reprs(self._amqp, self._app.conf, args, kwargs)
        return self._amqp.create_task_message(*call, **options)

    def send_task_message(self, producer: Any, name: str, message: Any, **options: Any) -> None:  # noqa: ARG002
        """Publish one message; ``options`` are those of Celery's ``send_task_message``."""
        headers, properties, body, event = message
        headers.update(options.pop("headers", None) or {})
        own = {key: options.pop(key, None) for key in _OF_ONE_SENDING}
        conf = self._app.conf
        own["serializer"] = own["serializer"] or conf.task_serializer
        own["compression"] = own["compression"] or conf.task_compression
        queue = self._queue(options)
        own |= self._retries(options) | self._place(queue, options)
        producer.publish(body, headers=headers, **own, **{**properties, **options})
        self._declared |= {id(each): each for each in own["declare"] if each.can_cache_declaration}
        if event:
            self._send_event(event, queue, own, producer)

    def _retries(self, options: dict[str, Any]) -> dict[str, Any]:
        conf = self._app.conf
        retry, policy = options.pop("retry", None), options.pop("retry_policy", None)
        return {
            "retry": conf.task_publish_retry if retry is None else retry,
            "retry_policy": {**conf.task_publish_retry_policy, **(policy or {})},
        }

    def _queue(self, options: dict[str, Any]) -> Any:
        queue = options.pop("queue", None)
        if queue is None and options.get("exchange") is None:
            queue = self._amqp.default_queue
        return self._amqp.queues[queue] if isinstance(queue, str) else queue

    def _place(self, queue: Any, options: dict[str, Any]) -> dict[str, Any]:
        """Exchange and routing key as Celery chooses them for these options, and what to declare there."""
        exchange, key = options.pop("exchange", None), options.pop("routing_key", None)
        home = None if queue is None else queue.exchange
        kind = options.pop("exchange_type", None) or getattr(home, "type", None) or "direct"
        mode = options.pop("delivery_mode", None) or getattr(home, "delivery_mode", None)
        declare = options.pop("declare", None)
        if declare is None and queue is not None and not isinstance(queue, Broadcast):
            declare = [] if id(queue) in self._declared else [queue]
        if kind == "direct" and not (exchange and key):
            exchange, key = "", getattr(queue, "name", None)
        elif exchange is None and queue is not None:
            exchange = queue.exchange.name or self._amqp.default_exchange
            key = key or queue.routing_key or self._app.conf.task_default_routing_key
        return {
            "exchange": exchange,
            "routing_key": key,
            "declare": declare or [],
            "delivery_mode": mode or self._app.conf.task_default_delivery_mode,
        }

    def _send_event(self, event: dict[str, Any], queue: Any, own: dict[str, Any], producer: Any) -> None:
        """Send monitors the event of a message that went out (``task_send_sent_event``)."""
        exchange = getattr(own["exchange"], "name", own["exchange"])
        name = getattr(queue, "name", "")
        event |= {"queue": name, "exchange": exchange, "routing_key": own["routing_key"]}
        dispatcher = self._app.events.Dispatcher(enabled=False)
        dispatcher.publish("task-sent", event, producer, retry=own["retry"], retry_policy=own["retry_policy"])
