"""A call as a message, and as the JSON text from which a retry or the sweeper sends it again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import Any

from celery import Celery
from celery.app.task import Context
from kombu import Connection, Producer
from kombu.utils import json as wire

from ..conf import settings
from ..exceptions import ConfigurationError, PayloadTooLarge
from . import header
from .address import address_of, delayed, moment
from .adopting import adopted
from .masking import masked_reprs
from .places import json_text
from .publication import as_stored, is_rpc
from .turns import FIRST, Turn, stored, turn_of
from .unreadable import Unreadable, indented, parsed

VERSION = 1
_PARTS = ("args", "kwargs", "options")

HEADER = header.HEADER
#: Mark in it: this message replaces a redelivered one, which its broker does not know.
AGAIN = "again"
#: Mark in it: how often the message came back because a conflict undid its transaction.
CONFLICTS = "conflicts"
#: Mark in it: the task is not ours, and its work is done for the ledger once the broker has the message.
SENT_ONLY = "sent_only"

#: Options of one sending, not of the work. Accepted work does not expire.
_PASSING = frozenset(
    {"eta", "countdown", "expires", "producer", "connection", "publisher", "retry", "retry_policy"}
)

#: Options for which a sending by name would take the task class's value where the call gave None.
_ALWAYS_STATED = ("expires", "time_limit", "soft_time_limit")

#: The types that a header's value may have.
_PLAIN = (str, int, float, list, tuple, dict)

#: Seconds for AMQP: to write the message, and until its confirm.
_BOUNDS = {"timeout": 2, "confirm_timeout": 2}


@dataclass(frozen=True, slots=True)
class Message:
    """One call of a task: its arguments, and those options of ``apply_async`` that belong to the work."""

    task: str
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    options: Mapping[str, Any]
    #: Whether the headers are complete, so that the publishing process adds nothing to them.
    stamped: bool = False

    @classmethod
    def of(cls, task: str, args: Any, kwargs: Any, options: Mapping[str, Any]) -> Message:
        """A message without the options of one sending."""
        kept = {name: value for name, value in options.items() if value is not None and name not in _PASSING}
        return cls(task, tuple(args or ()), dict(kwargs or {}), kept)

    @classmethod
    def to_reserve(cls, task: str, args: Any, kwargs: Any, options: Mapping[str, Any]) -> Message:
        """A message that keeps ``eta`` and ``expires``, which must be moments, until the call is claimed."""
        message = cls.of(task, args, kwargs, options)
        moments = {name: options[name] for name in ("eta", "expires") if options.get(name) is not None}
        return replace(message, options={**message.options, **moments})

    @classmethod
    def as_stamped(cls, task: str, args: Any, kwargs: Any, options: Mapping[str, Any]) -> Message:
        """A message to reserve with the headers that its sender stamped, which every publication keeps."""
        return replace(cls.to_reserve(task, args, kwargs, options), stamped=True)

    @property
    def is_sent_only(self) -> bool:
        """Whether the task is not ours, so that no worker claims the row."""
        own = (self.options.get("headers") or {}).get(HEADER)
        return isinstance(own, dict) and own.get(SENT_ONLY) is True

    @property
    def turn(self) -> Turn:
        """Which turn of its call this message is."""
        return turn_of((self.options.get("headers") or {}).get(HEADER), self.options)

    def started(self) -> Message:
        """The message of work that was claimed before, without its ETA and its expiry."""
        kept = Message.of(self.task, self.args, self.kwargs, self.options)
        return replace(kept, stamped=self.stamped)

    def addressed(self, app: Celery) -> Mapping[str, Any]:
        """The options, with the queue where only workers with the guard take the message, if there is one."""
        if not self._is_guarded:
            return self.options
        return adopted(app, self.task, self.options, self.args, self.kwargs)

    @property
    def _is_guarded(self) -> bool:
        return HEADER in (self.options.get("headers") or {}) and not self.is_sent_only

    def with_header(self, header: Mapping[str, Any]) -> Message:
        """The message with this identity, also in headers that an instrument has nested."""
        headers = {**(self.options.get("headers") or {}), HEADER: header}
        nested = headers.get("headers")
        if isinstance(nested, Mapping) and HEADER in nested:
            headers["headers"] = {**nested, HEADER: header}
        return replace(self, options={**self.options, "headers": headers})

    def has_expired(self, *, now: Callable[[], datetime]) -> bool:
        """Whether a worker would drop the message as expired; asks the clock only where it has an expiry."""
        if not self.options.get("expires"):
            return False
        reference = now()
        expires = moment(self.options["expires"], tz=reference.tzinfo)
        return expires is not None and expires <= reference

    @classmethod
    def of_request(cls, task: Any, request: Any, own: Mapping[str, Any] | None = None) -> Message:
        """The message that delivered a request, as ``Task.signature_from_request`` makes it.

        Without its Signature, which would cost a guarded task more than the identity of its call; and with
        that identity, wherever it stood in the delivered message. ``own`` is its header, where that is known.
        """
        ignored = vars(request).get("ignore_result")
        options = request.as_execution_options()
        options["ignore_result"] = task.ignore_result if ignored is None else ignored
        if own is None:
            options["headers"] = header.with_identity(options["headers"], request, task_name=task.name)
        else:
            options["headers"] = {**(options["headers"] or {}), HEADER: own}
        info = request.delivery_info or {}
        options["priority"] = info.get("priority")
        options |= address_of(task.app, info)
        policy = getattr(task, "idempotency_policy", None)  # a plain task has none
        options |= {} if policy is None else masked_reprs(policy, request.args, request.kwargs)
        options["headers"] = {**beside(request), **(options["headers"] or {})}
        return cls.of(task.name, request.args, request.kwargs, options)

    def encode(self, *, limit: int) -> str | None:
        """The JSON text; None when it is above ``limit`` characters, or not JSON (other serializers).

        Headers have the same limit of their own, so that what instruments stamp takes no room from the
        arguments. A stored message counts as stamped.
        """
        text = json_text(content(list(self.args), dict(self.kwargs), dict(self.options), self.turn))
        if text is None or len(text) <= limit:
            return text
        headers = len(json_text(self.options.get("headers")) or "")
        return text if headers <= limit and len(text) - headers <= limit else None

    def text_or_raise(self) -> str:
        """The JSON text that a row keeps. Raises ConfigurationError for a message that no row can hold."""
        limit = settings().max_payload
        text = self.encode(limit=limit)
        if text is not None:
            return text
        part = self._not_json()
        problem = f"{part} is not JSON" if part else f"it is above MAX_PAYLOAD ({limit} characters)"
        msg = f"{self.task}: this call cannot be stored, {problem}; pass an id or a name instead."
        raise ConfigurationError(msg) if part else PayloadTooLarge(msg)

    def _not_json(self) -> str | None:
        """The name of the first part that JSON cannot hold; None when there is none."""
        parts = {f"argument {place}": value for place, value in enumerate(self.args, start=1)}
        parts |= {f"argument {name!r}": value for name, value in self.kwargs.items()}
        parts |= {f"option {name!r}": value for name, value in self.options.items()}
        return next((name for name, value in parts.items() if not is_json(value)), None)

    @classmethod
    def decode(cls, task: str, text: str) -> Message:
        """The message of a stored text. Raises ValueError for one of another version or shape."""
        try:
            content = wire.loads(text)
        except Exception as error:  # noqa: BLE001  a project's own decoder of a "__type__" may raise anything
            # Neither quoted nor chained: such an error has parts of the message in it.
            msg = f"The stored message of {task} cannot be read ({type(error).__name__})."
            raise ValueError(msg) from None
        is_ours = isinstance(content, dict) and content.get("v") == VERSION
        if not is_ours or [type(content.get(part)) for part in _PARTS] != [list, dict, dict]:
            msg = f"The stored message of {task} is not of version {VERSION}."
            raise ValueError(msg)
        args, kwargs, options = map(content.get, _PARTS)
        return cls(task, args, kwargs, options, stamped=content.get("stamped") is True)

    def publish(
        self,
        app: Celery,
        *,
        countdown: float = 0,
        connection: Connection | None = None,
        producer: Producer | None = None,
        send: Callable[..., Any] | None = None,
    ) -> None:
        """Send by ``producer``, on ``connection`` or on the app's pool. Raises what the transport raises.

        A stamped message goes out as it is, by ``send`` where :func:`as_stored` has given one for all
        messages of the producer; any other as Celery sends it from this process.
        """
        options = delayed(app, {**dict.fromkeys(_ALWAYS_STATED), **self.addressed(app)}, countdown=countdown)
        if producer is not None:
            options |= {"producer": producer, "retry": False, **_BOUNDS}
        elif connection is not None:
            options |= {"connection": connection, "retry": False, **_BOUNDS}
        call = (self.task, list(self.args), dict(self.kwargs))
        if self.stamped:
            (send or as_stored(app))(*call, add_to_parent=False, **options)
            return
        with nullcontext() if is_rpc(app) else unsubscribed(app.backend):
            app.send_task(*call, add_to_parent=False, **options)


@contextmanager
def unsubscribed(backend: Any) -> Iterator[None]:
    """Inside, sending does not subscribe to the result, which needs an unbounded connection; waiting does.

    The backend is this thread's own; Celery's flag for the same holds for the whole process.
    """
    hooks = vars(backend)
    before = hooks.get("on_task_call")
    hooks["on_task_call"] = lambda *_args, **_kwargs: None
    try:
        yield
    finally:
        if before is None:
            hooks.pop("on_task_call", None)
        else:
            hooks["on_task_call"] = before


def beside(request: Any) -> dict[str, Any]:
    """Headers of a delivery that a nested ``headers`` among them hides from ``request.headers``.

    Attributes that others have set on the request look the same; those that are objects are left out.
    """
    details = vars(request)
    return {name: details[name] for name in _custom(tuple(details)) if isinstance(details[name], _PLAIN)}


@lru_cache(maxsize=256)
def _custom(names: tuple[str, ...]) -> list[str]:
    """Those of a request's attributes that Celery takes for headers of the project's own.

    Without x-death and the like: RabbitMQ drops a message that was dead-lettered before.
    """
    context: Any = Context()  # its stub lacks what follows
    custom = context._get_custom_headers(dict.fromkeys(names)) or ()  # noqa: SLF001  as Celery itself reads them
    return [name for name in custom if "-death" not in name]


def stored_text(task: Any, request: Any, own: Mapping[str, Any] | None = None) -> str | None:
    """A request's message as the row keeps it; None where it must not be kept, or cannot."""
    if task.idempotency_policy.sensitive or request.is_eager:
        return None
    return Message.of_request(task, request, own).encode(limit=settings().max_payload)


def content(args: object, kwargs: object, options: object, turn: Turn = FIRST) -> dict[str, object]:
    """What a stored message says of a call; its turn stands at the beginning, where SQL finds it."""
    parts = {"args": args, "kwargs": kwargs, "options": options}
    return {"v": VERSION, **stored(turn), **parts, "stamped": True}


def is_json(value: object) -> bool:
    """Whether a row can hold a value as JSON."""
    return json_text(value) is not None


def pretty(text: str | None) -> str:
    """A stored text for people; never raises."""
    try:
        return indented(parsed(text or "null"))
    except Unreadable as error:
        return str(error)
