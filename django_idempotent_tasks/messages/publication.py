"""Publishes a stored message with exactly the headers that the row has.

Celery's own ``send_task`` builds the message. An app's own ``send_task``, wrappers of instruments and the
publish signals are left out: they ran when the call was sent, in the process that sent it.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import unwrap
from typing import Any

from celery import Celery
from kombu.common import Broadcast

#: Arguments of kombu's ``Producer.publish`` that are neither headers nor properties.
_OF_ONE_SENDING = ("serializer", "compression", "timeout", "confirm_timeout")


def as_stored(app: Celery) -> Callable[..., Any]:
    """``app.send_task`` for a message whose ``headers`` are complete."""
    send: Any = unwrap(Celery.send_task)
    return send.__get__(_App(app))  # type: ignore[no-any-return]


class _App:
    """An app as Celery's ``send_task`` sees it: no task of this process is the sender."""

    current_worker_task = None

    def __init__(self, app: Celery) -> None:
        self._app = app
        self.amqp = _Amqp(app)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._app, name)


class _Amqp:
    """The app's AMQP, which sends without a publish signal."""

    def __init__(self, app: Celery) -> None:
        self._app = app
        self._amqp: Any = app.amqp
        #: Celery asks ``amqp.router`` for the route.
        self.router = self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._amqp, name)

    def route(self, options: dict[str, Any], *call: Any) -> Any:
        """The stored address; asks the project's routers where the message has none."""
        router = self._amqp.router
        if options.get("queue") or options.get("exchange"):
            return router.expand_destination(dict(options))
        return router.route(options, *call)

    def send_task_message(self, producer: Any, name: str, message: Any, **options: Any) -> None:  # noqa: ARG002
        """Publish one message; ``options`` are those of Celery's ``send_task_message``."""
        headers, properties, body, event = message
        headers.update(options.pop("headers", None) or {})
        own = {key: options.pop(key, None) for key in _OF_ONE_SENDING}
        conf = self._app.conf
        own["serializer"] = own["serializer"] or conf.task_serializer
        own["compression"] = own["compression"] or conf.task_compression
        own |= self._retries(options) | self._place(options)
        producer.publish(body, headers=headers, **own, **{**properties, **options})
        if event:
            self._tell(event, own, producer)

    def _retries(self, options: dict[str, Any]) -> dict[str, Any]:
        conf = self._app.conf
        retry, policy = options.pop("retry", None), options.pop("retry_policy", None)
        return {
            "retry": conf.task_publish_retry if retry is None else retry,
            "retry_policy": {**conf.task_publish_retry_policy, **(policy or {})},
        }

    def _place(self, options: dict[str, Any]) -> dict[str, Any]:
        """Exchange and routing key as Celery chooses them for these options, and what to declare there."""
        exchange, key = options.pop("exchange", None), options.pop("routing_key", None)
        queue = options.pop("queue", None)
        if queue is None and exchange is None:
            queue = self._amqp.default_queue
        if isinstance(queue, str):
            queue = self._amqp.queues[queue]
        home = None if queue is None else queue.exchange
        kind = options.pop("exchange_type", None) or getattr(home, "type", None) or "direct"
        mode = options.pop("delivery_mode", None) or getattr(home, "delivery_mode", None)
        declare = options.pop("declare", None)
        if declare is None and queue is not None and not isinstance(queue, Broadcast):
            declare = [queue]
        if kind == "direct" and not (exchange and key):
            exchange, key = "", getattr(queue, "name", None)
        elif exchange is None and queue is not None:
            exchange = queue.exchange.name or self._amqp.default_exchange
            key = key or queue.routing_key or self._app.conf.task_default_routing_key
        return {
            "exchange": exchange,
            "routing_key": key,
            "declare": declare,
            "delivery_mode": mode or self._app.conf.task_default_delivery_mode,
        }

    def _tell(self, event: dict[str, Any], own: dict[str, Any], producer: Any) -> None:
        """``task_send_sent_event``: monitors hear of the message that went out."""
        exchange = getattr(own["exchange"], "name", own["exchange"])
        queue = next((getattr(each, "name", "") for each in own["declare"] or ()), "")
        event |= {"queue": queue, "exchange": exchange, "routing_key": own["routing_key"]}
        dispatcher = self._app.events.Dispatcher(enabled=False)
        dispatcher.publish("task-sent", event, producer, retry=own["retry"], retry_policy=own["retry_policy"])
