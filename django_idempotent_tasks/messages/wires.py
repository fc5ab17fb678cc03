"""Writes what kombu would put on Redis for a message, once kombu itself has written a message of its kind."""

from __future__ import annotations

import json
import os
import re
from base64 import b64decode
from binascii import b2a_base64
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any

from celery import Celery
from kombu.utils import json as wire

from .alike import routes_by_name
from .header import HEADER
from .message import Message
from .mould import Cast
from .places import Pattern, json_text, place, quoted
from .publication import usual_reprs

#: Options that Celery reads a clock for.
_TIMES = ("eta", "countdown", "expires")
#: Options that are another text for each message.
_TEXTS = ("root_id", "parent_id", "group_id", "argsrepr", "kwargsrepr")
_REPRS = ("argsrepr", "kwargsrepr")
#: How many kinds are known at a time.
_KINDS = 100
#: How the body of a message without arguments begins.
_BODY = "[[], {}, "
#: A flat list or dict whose JSON text differs from Celery's description only in its quotes.
_FLAT = re.compile(r'[\[{](?:[\w ,:.@+/-]|"){1,200}[\]}]', re.ASCII)
_EMPTY = frozenset({"[]", "{}"})
_NOT_PYTHONS = re.compile("true|false|null|NaN|Infinity")

Texts = Mapping[str, str]
#: Publishes a message on the channel, as kombu does.
Publish = Callable[[Message], None]


class Wire:
    """What the messages of one kind have in common: their list on Redis, and a text with places."""

    def __init__(self, app: Celery, key: Any, pattern: Pattern, tail: str) -> None:
        self.key = key
        self._app = app
        self._pattern = pattern
        #: The body behind the arguments.
        self._tail = tail
        self._tags = _tags()

    def payload(self, texts: Texts) -> bytes:
        """The text of the message with these parts."""
        args, kwargs = texts["args"], texts["kwargs"]
        body = b2a_base64(f"[{args}, {kwargs}, {self._tail}".encode(), newline=False).decode()
        own = {"body": f'"{body}"', "tag": next(self._tags)}
        if "argsrepr" not in texts or "kwargsrepr" not in texts:
            own |= self._described(args, kwargs)
        own |= texts
        return self._pattern.filled(own).encode()

    def having(self, texts: Texts) -> Wire:
        """The same kind for messages that have these texts in common."""
        return Wire(self._app, self.key, self._pattern.having(texts), self._tail)

    def _described(self, args: str, kwargs: str) -> dict[str, str]:
        """The descriptions of the arguments for monitors, as Celery makes them."""
        short_args, short_kwargs = _short(args, "()"), _short(kwargs, "{}")
        if short_args is None or short_kwargs is None:
            amqp: Any = self._app.amqp
            usual = usual_reprs(amqp, self._app.conf, wire.loads(args), wire.loads(kwargs))
            return {name: quoted(text) for name, text in usual.items()}
        return {"argsrepr": quoted(short_args), "kwargsrepr": quoted(short_kwargs)}


class Wires:
    """The kinds of messages that go out on one connection."""

    def __init__(self, app: Celery, channel: Any, publish: Publish) -> None:
        self._app = app
        self._channel = channel
        self._publish = publish
        #: None: kombu has to write these. Absent: none was seen, or only one.
        self._known: dict[str, Wire | None] = {}
        self._seen: set[str] = set()
        self._of_samples: dict[int, tuple[Message, Wire | None]] = {}
        self._is_usable = not app.conf.task_send_sent_event and routes_by_name(app)

    def of(self, message: Message | Cast) -> tuple[Wire, Texts] | None:
        """The message's kind and its own texts; None for one that kombu has to write."""
        if not self._is_usable:
            return None
        if isinstance(message, Cast):
            return self._of_cast(message)
        texts, kind = _parts(message)
        found = self._kind(kind, message)
        return None if found is None else (found, texts)

    def _of_cast(self, cast: Cast) -> tuple[Wire, Texts] | None:
        sample, texts = cast
        known = self._of_samples.get(id(sample))
        if known is None or known[1] is None:
            others, kind = _parts(sample)
            found = self._kind(kind, sample)
            if found is not None:
                found = found.having({name: text for name, text in others.items() if name not in texts})
            # With the sample itself: once that is gone another object may have its id.
            known = self._of_samples[id(sample)] = sample, found
        return None if known[1] is None else (known[1], texts)

    def _kind(self, kind: str, message: Message) -> Wire | None:
        """What is known of a kind: nothing before kombu has sent a message of it, and declared its queue."""
        if not kind:
            return None
        if kind not in self._known:
            if kind not in self._seen:
                self._see(kind)
                return None
            self._known[kind] = self._written(_with_places(message))
        return self._known[kind]

    def _see(self, kind: str) -> None:
        if len(self._seen) >= _KINDS:
            self._seen.clear()
            self._known.clear()
            self._of_samples.clear()
        self._seen.add(kind)

    def _written(self, message: Message) -> Wire | None:
        """What kombu makes of a message, which goes nowhere."""
        try:
            with recorded(self._channel) as pushed:
                self._publish(message)
            ((key, payload),) = pushed
            return _wire(self._app, key, json.loads(payload))
        except Exception:  # noqa: BLE001  kombu asks the broker for more, or its message has another form
            return None


class _Recorder:
    """In the place of a client of Redis: notes what goes into a list, and knows no other command."""

    def __init__(self, pushed: list[tuple[Any, Any]]) -> None:
        self._pushed = pushed

    def lpush(self, key: Any, payload: Any) -> None:
        """Note it."""
        self._pushed.append((key, payload))


@contextmanager
def recorded(channel: Any) -> Iterator[list[tuple[Any, Any]]]:
    """Inside, a channel of kombu's for Redis sends nothing; what it would put into lists."""
    pushed: list[tuple[Any, Any]] = []
    own = {name: vars(channel)[name] for name in ("_put", "conn_or_acquire") if name in vars(channel)}
    vars(channel).pop("_put", None)
    channel.conn_or_acquire = lambda _client=None: nullcontext(_Recorder(pushed))
    try:
        yield pushed
    finally:
        del channel.conn_or_acquire
        vars(channel).update(own)


def _parts(message: Message) -> tuple[dict[str, str], str]:
    """A message's own texts, and a text of all else in it: its kind, empty where it has none."""
    options, headers = dict(message.options), dict(message.options.get("headers") or {})
    task_id, own = options.pop("task_id", None), headers.get(HEADER)
    if not message.stamped or own is None or not isinstance(task_id, str) or any(map(options.get, _TIMES)):
        return {}, ""
    found: dict[str, str | None] = {
        "args": json_text(list(message.args)),
        "kwargs": json_text(dict(message.kwargs)),
        "id": quoted(task_id),
    }
    found |= {_name_of(name): json_text(value) for name, value in headers.items()}
    own_texts = [name for name in _TEXTS if isinstance(options.get(name), str)]
    found |= {name: quoted(options.pop(name)) for name in own_texts}
    kind = json_text([message.task, sorted(headers), own_texts, {**options, "headers": None}])
    texts = {name: text for name, text in found.items() if text is not None}
    return (texts, kind or "") if len(texts) == len(found) else ({}, "")


def _with_places(message: Message) -> Message:
    """The message without arguments, and with places for its own texts."""
    options = dict(message.options)
    headers = {name: place(_name_of(name)) for name in options["headers"]}
    options |= {name: place(name) for name in _TEXTS if isinstance(options.get(name), str)}
    return replace(
        message, args=[], kwargs={}, options={**options, "task_id": place("id"), "headers": headers}
    )


def _name_of(header: str) -> str:
    """A header's name as that of a place."""
    return "header" if header == HEADER else "of " + header.encode().hex()


def _wire(app: Celery, key: Any, payload: dict[str, Any]) -> Wire | None:
    """The kind of a message that kombu has written; None where its parts are not where they usually are."""
    headers, properties = payload["headers"], payload["properties"]
    if payload["content-type"] != "application/json" or "compression" in headers:
        return None
    if properties.get("body_encoding") != "base64":
        return None
    body = b64decode(payload["body"]).decode()
    if not body.startswith(_BODY):
        return None
    empty = dict(zip(_REPRS, ("()", "{}"), strict=True))
    headers |= {name: place(name) for name in _REPRS if headers.get(name) == empty[name]}
    payload["body"], properties["delivery_tag"] = place("body"), place("tag")
    try:
        return Wire(app, key, Pattern(payload), body.removeprefix(_BODY))
    except ValueError:
        return None


def _tags() -> Iterator[str]:
    """Random texts, by which kombu tells deliveries; the system is asked for a hundred at a time."""
    while True:
        drawn = os.urandom(16 * 100).hex()
        yield from (f'"{drawn[at : at + 32]}"' for at in range(0, len(drawn), 32))


def _short(text: str, empty: str) -> str | None:
    """Celery's description of plain and short arguments; None for others."""
    if text in _EMPTY:
        return empty
    if not _FLAT.fullmatch(text) or _NOT_PYTHONS.search(text):
        return None
    return text.replace('"', "'")
