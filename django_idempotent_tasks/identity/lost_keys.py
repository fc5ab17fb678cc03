"""Finds dicts whose keys become one in JSON (``1`` and ``"1"``), before they are encoded."""

from __future__ import annotations

import json
from collections.abc import Iterable

from .canonical import is_sent_as_it_is, joined


def lost_key(value: object) -> str | None:
    """The first key in a value's dicts that JSON would write like another key; None when there is none.

    The text of ``{1: "a", "1": "b"}`` would hold both, and its reader would get the last. Looks only into
    what JSON takes for a list or a dict.
    """
    return None if is_sent_as_it_is(value) else _lost(value)


def _lost(value: object) -> str | None:
    inner: Iterable[object]
    if isinstance(value, dict):
        written = [_written(key) for key in value] if _may_lose(value) else []
        if len(set(written)) < len(written):
            return ascii(next(name for name in written if written.count(name) > 1))[:60]
        inner = value.values()
    elif isinstance(value, list | tuple):
        inner = value
    else:
        return None
    return next((found for found in map(_lost, inner) if found is not None), None)


def _may_lose(value: dict[object, object]) -> bool:
    return any(type(key) is not str or not key.isascii() for key in value)


def _written(key: object) -> str:
    if isinstance(key, str):
        return joined(key)
    return json.dumps(key) if key is None or isinstance(key, bool | int | float) else f"{type(key)} {id(key)}"
