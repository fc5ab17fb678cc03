"""Writes the messages of calls that are alike: the first has passed through Celery, others get its form."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from kombu.utils import json as wire

from ..conf import settings
from ..identity.key import Identity
from .alike import treats_alike
from .header import HEADER, SENT
from .message import Message, content
from .places import Pattern, json_text, place, quoted
from .turns import FIRST

#: What is a call's own in a stored message: its arguments, its task id and its identity.
OWN = ("args", "kwargs", "id", "header")
_OF_THE_IDENTITY = ("id", "digest", "scope", "key", "fp")
#: Options that Celery computes from the time of the call.
_TIMES = ("eta", "countdown", "expires")


class Cast(NamedTuple):
    """A message made in a mould: the parts that are its own, as JSON texts, and the message of its mould."""

    sample: Message
    texts: Mapping[str, str]

    @property
    def task(self) -> str:
        """The task's name."""
        return self.sample.task

    @property
    def size(self) -> int:
        """The characters that are its own, but for ids."""
        texts = self.texts
        return len(texts["args"]) + len(texts["kwargs"]) + len(texts["header"])

    def whole(self) -> Message:
        """The message by itself."""
        sample, texts = self.sample, self.texts
        args, kwargs, task_id, header = (wire.loads(texts[name]) for name in OWN)
        options = dict(sample.options)
        if "root_id" in texts:
            options["root_id"] = task_id
        options |= {"task_id": task_id, "headers": {**options["headers"], HEADER: header}}
        return replace(sample, args=args, kwargs=kwargs, options=options)


class Mould:
    """Makes the stored texts of calls like the one whose message it was made from."""

    def __init__(self, sample: Message, header: Pattern, text: Pattern) -> None:
        self.sample = sample
        self._header = header
        self._text = text
        self._limit = settings().max_payload
        self._is_timed = SENT in sample.options["headers"][HEADER]
        #: Whether each call is the first of its line, as Celery counts.
        self._is_root = sample.options.get("root_id") == sample.options["task_id"]

    @classmethod
    def of(cls, task: Any, sample: Message, identity: Identity) -> Mould | None:
        """The mould of a task's calls; None where the next one may be stamped in another way."""
        if not treats_alike(task) or sample.turn != FIRST or any(map(sample.options.get, _TIMES)):
            return None
        options, task_id = dict(sample.options), sample.options["task_id"]
        own = {**options["headers"][HEADER]}
        own |= {name: place(name) for name in (*_OF_THE_IDENTITY, SENT) if name in own}
        options |= {name: place("id") for name in ("task_id", "root_id") if options.get(name) == task_id}
        options["headers"] = {**options["headers"], HEADER: place("header")}
        try:
            header = Pattern(own)
            text = Pattern(content(place("args"), place("kwargs"), options))
        except ValueError:
            return None
        mould = cls(sample, header, text)
        # What it makes of the sample's own parts must be the sample's own text.
        args, kwargs = json_text(list(sample.args)), json_text(dict(sample.kwargs))
        if args is None or kwargs is None:
            return None
        sent = sample.options["headers"][HEADER].get(SENT)
        made = mould.filled(identity, task_id, args, kwargs, sent=sent)
        return mould if made is not None and made[0] == sample.encode(limit=mould._limit) else None

    def cast(self, identity: Identity, task_id: str, args: Any, kwargs: Any) -> tuple[str, Cast] | None:
        """The stored text of a call, and its message; None for one that is too large or is not JSON."""
        args_text, kwargs_text = json_text(list(args or ())), json_text(dict(kwargs or {}))
        if args_text is None or kwargs_text is None:
            return None
        return self.filled(identity, task_id, args_text, kwargs_text)

    def filled(
        self, identity: Identity, task_id: str, args: str, kwargs: str, *, sent: float | None = None
    ) -> tuple[str, Cast] | None:
        """The same for arguments that are JSON texts already; ``sent`` is now, where the header says when."""
        print_ = identity.fingerprint
        own = {
            "digest": f'"{identity.digest.hex}"',
            "scope": quoted_or_null(identity.scope),
            "key": quoted(identity.key_text),
            "fp": "null" if print_ is None else f'"{print_.hex}"',
        }
        return self.of_texts(own, quoted(task_id), args, kwargs, sent=sent)

    def of_texts(
        self, own: dict[str, str], task_id: str, args: str, kwargs: str, *, sent: float | None = None
    ) -> tuple[str, Cast] | None:
        """The same for JSON texts alone; ``own`` are those of the identity in the header."""
        own["id"] = task_id
        if self._is_timed:
            own[SENT] = repr(sent or round(time.time(), 3))
        texts = {"args": args, "kwargs": kwargs, "id": task_id, "header": self._header.filled(own)}
        if self._is_root:
            texts["root_id"] = task_id
        text = self._text.filled(texts)
        return (text, Cast(self.sample, texts)) if len(text) <= self._limit else None


def quoted_or_null(text: str | None) -> str:
    """A text as JSON, or null."""
    return "null" if text is None else quoted(text)
