"""Builds a reserved call's message where it is sent, with all headers, and publishes nothing.

A class's own ``apply_async``, an app's own ``send_task`` and the receivers of ``before_task_publish`` read
the sender's tenant, trace and request. They run here once, with a producer that keeps the message; the row
stores the message that they made, and every later publication sends it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from celery import Celery, signals

from ..exceptions import ConfigurationError
from .address import delay_of, delayed
from .message import Message, is_json, unsubscribed
from .publication import usual_reprs

#: Headers of Celery's own protocol, which it builds from options whenever a message is published.
_OF_THE_PROTOCOL = frozenset(
    {
        *("lang", "task", "id", "shadow", "eta", "expires", "group", "group_index", "retries", "timelimit"),
        *("root_id", "parent_id", "argsrepr", "kwargsrepr", "origin", "ignore_result"),
        *("replaced_task_nesting", "stamped_headers", "stamps"),
    }
)
#: The option of ``apply_async`` behind each such header, or part of a message of protocol 1.
_OPTION_OF = {
    "shadow": "shadow",
    "eta": "eta",
    "expires": "expires",
    "group": "group_id",
    "group_index": "group_index",
    "retries": "retries",
    "root_id": "root_id",
    "parent_id": "parent_id",
    "origin": "origin",
    "ignore_result": "ignore_result",
    "replaced_task_nesting": "replaced_task_nesting",
    "callbacks": "link",
    "errbacks": "link_error",
    "chord": "chord",
    "chain": "chain",
}
#: Counts that Celery takes for 0 where a message has none: a 0 is not stored.
_COUNTS = frozenset({"retries", "replaced_task_nesting"})
#: Options of this one passage through Celery.
_PASSAGE = frozenset(
    {
        *("headers", "router", "connection", "retry", "retry_policy"),
        *("declare", "timeout", "confirm_timeout"),
    }
)

Send = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class _Parts:
    args: Any
    kwargs: Any
    #: Celery's protocol: its headers, and the part of the body behind the arguments.
    protocol: dict[str, Any]
    headers: dict[str, Any]
    properties: dict[str, Any]


class Passage:
    """One call on its way through Celery: the ``router`` and the ``producer`` that it meets there."""

    def __init__(self, app: Celery, task: str, task_id: str) -> None:
        self._app = app
        self._task = task
        self._task_id = task_id
        self._routed: dict[str, Any] = {}
        self._parts: _Parts | None = None
        #: The call in eager mode, where Celery runs it instead of publishing it.
        self._applied: Message | None = None
        #: Attributes that Celery reads of its producer.
        self.serializer = None
        self.connection = self

    @property
    def options(self) -> dict[str, Any]:
        """The options for ``apply_async`` or ``send_task``, without a ``connection`` to publish on."""
        passage = {"producer": self, "router": self, "connection": None}
        return {**passage, "retry": False, "add_to_parent": False}

    @property
    def message(self) -> Message:
        """The call as it would have been published. Raises ConfigurationError where it was not."""
        found = self._applied or (self._parts and self._published(self._parts))
        if not found:
            msg = (
                f"{self._task}: an apply_async or send_task of the project returned without sending the call."
                " A reserved call goes out after the commit by itself, so each of them must call super() at"
                " once, and pass on its options (producer and router among them)."
            )
            raise ConfigurationError(msg)
        if found.options.get("task_id") != self._task_id:
            msg = (
                f"{self._task}: an apply_async or send_task of the project changed the task id of a reserved"
                " call, which its row has. Pass task_id= where the call is made."
            )
            raise ConfigurationError(msg)
        return found

    # -- what Celery asks its router --

    def route(self, options: dict[str, Any], *call: Any) -> dict[str, Any]:
        """The route that the project's routers give; where they raise, the publication asks them again."""
        given = {name: value for name, value in options.items() if name not in _PASSAGE}
        try:
            routed = self._app.amqp.router.route(dict(options), *call)
        except Exception:  # noqa: BLE001  a router is the project's own
            routed = {**options, "queue": self._app.amqp.default_queue}
            self._routed = given
        else:
            self._routed = self._storable(given, routed)
        routed.pop("router", None)
        return dict(routed)

    def _storable(self, given: dict[str, Any], routed: dict[str, Any]) -> dict[str, Any]:
        """The options that a row can hold: a queue by its name, where the app finds it by that."""
        passing = {*given, *_PASSAGE, "queue"}
        added = {key: value for key, value in routed.items() if key not in passing and is_json(value)}
        options = {**given, **added}
        queue = routed.get("queue")
        name = getattr(queue, "name", "")
        amqp: Any = self._app.amqp
        is_found = amqp.queues.get(name) is queue
        if given.get("queue") is None and amqp.routes and is_found and not options.get("exchange"):
            options["queue"] = name
        return options

    # -- what Celery asks its producer --

    @contextmanager
    def _reraise_as_library_errors(self) -> Iterator[None]:
        yield

    def publish(self, body: Any, *, headers: Any = None, **sending: Any) -> None:
        """Keep the message; ignore an event for monitors."""
        headers = dict(headers or {})
        if isinstance(body, dict) and "args" in body and "id" in body:  # protocol 1
            self._parts = _Parts(body["args"], body["kwargs"], dict(body), headers, sending)
        elif isinstance(body, tuple | list):
            args, kwargs, embedded = body
            self._parts = _Parts(args, kwargs, {**embedded, **headers}, headers, sending)

    def _published(self, parts: _Parts) -> Message:
        protocol = parts.protocol
        options = {**self._routed, "task_id": protocol["id"], **self._changed(parts.properties)}
        for name, option in _OPTION_OF.items():
            if protocol.get(name) is not None and not (name in _COUNTS and protocol[name] == 0):
                options[option] = protocol[name]
        options["time_limit"], options["soft_time_limit"] = protocol.get("timelimit") or (None, None)
        if protocol.get("stamped_headers"):
            options |= {"stamped_headers": protocol["stamped_headers"], **(protocol.get("stamps") or {})}
        options |= self._shown(parts)
        headers = {name: value for name, value in parts.headers.items() if name not in _OF_THE_PROTOCOL}
        return self._kept(parts.args, parts.kwargs, {**options, "headers": headers})

    def _changed(self, properties: Mapping[str, Any]) -> dict[str, Any]:
        """The message's properties; its expiration is computed anew from ``expires``."""
        fleeting = {"correlation_id", "exchange", "routing_key", "serializer", "compression", "delivery_mode"}
        fleeting |= _PASSAGE
        if "expiration" not in self._routed:
            fleeting.add("expiration")
        return {name: value for name, value in properties.items() if name not in fleeting}

    def _shown(self, parts: _Parts) -> dict[str, Any]:
        """The descriptions of the arguments for monitors, where a receiver has changed them."""
        if not signals.before_task_publish.receivers:
            return {}
        usual = usual_reprs(self._app.amqp, self._app.conf, parts.args, parts.kwargs)
        stated = {name: parts.headers[name] for name in usual if name in parts.headers}
        return {name: text for name, text in stated.items() if text != usual[name]}

    # -- eager mode --

    def applied(self, args: Any, kwargs: Any, options: Mapping[str, Any]) -> None:
        """Keep the call that Celery would run here."""
        now = self._app.now()
        kept = {name: value for name, value in options.items() if name not in _PASSAGE - {"headers"}}
        delay = delay_of(kept, now=self._app.now)
        if delay:
            kept["eta"] = now + timedelta(seconds=delay)
        if isinstance(kept.get("expires"), int | float):
            kept["expires"] = now + timedelta(seconds=kept["expires"])
        self._applied = self._kept(args, kwargs, {**_lineage(self._app), **kept})

    def _kept(self, args: Any, kwargs: Any, options: dict[str, Any]) -> Message:
        return Message.as_stamped(self._task, args, kwargs, options)


def stamp(task: Any, send: Send, args: Any, kwargs: Any, task_id: str, options: Mapping[str, Any]) -> Message:
    """The message that ``send``, an ``apply_async``, would publish now; nothing is published.

    The receivers of ``before_task_publish`` and ``after_task_publish`` run here, once for each call. Raises
    what the project's own classes raise, and ConfigurationError where they do not send.
    """
    passage = Passage(task.app, task.name, task_id)
    options = delayed(task.app, dict(options), countdown=0)  # Celery refuses a short one on quorum queues
    with unsubscribed(task.app.backend):
        send(args, kwargs, task_id=task_id, **{**options, **passage.options})
    return passage.message


def _lineage(app: Any) -> dict[str, Any]:
    """The ids of the running task that sends, as ``send_task`` notes them."""
    parent = app.current_worker_task
    if parent is None:
        return {}
    request = parent.request
    lineage = {"root_id": request.root_id or request.id, "parent_id": request.id}
    if app.conf.task_inherit_parent_priority:
        lineage["priority"] = (request.delivery_info or {}).get("priority")
    return lineage
