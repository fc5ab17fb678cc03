"""Writes values as canonical JSON: equal values give one text on every machine, different ones differ."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from enum import Enum
from typing import Any, TypeAlias
from uuid import UUID

from django.utils.functional import Promise

from ..exceptions import InvalidKey

#: Where a value stands: the trail of its container, and its key (str) or index (int) in there.
Trail: TypeAlias = "tuple[Trail | None, str | int]"

#: Marks a value of a type that JSON has not, as in {"!uuid": ...}; a user's key that begins so doubles it.
_MARK = "!"
_INTEGRAL_FLOAT = re.compile(r"\.0(?:[,\]}]|$)|e\+\d")
_SHOWN_LENGTH = 60
_SCALARS: frozenset[type] = frozenset({str, int, float, bool, type(None)})
_ONLY_STR: frozenset[type] = frozenset({str})
#: The thread's own context would round, and may write "e" for "E".
_UNROUNDED = Context(prec=MAX_PREC, Emin=MIN_EMIN, Emax=MAX_EMAX, capitals=1, clamp=0, traps=[])
_MICROSECOND = timedelta(microseconds=1)

# Not orjson or msgspec: they write floats and non-ASCII text differently, which would give other keys.
_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False).encode


def canonical_json(value: object, *, where: str) -> str:
    """Return the canonical text of a value: ASCII, the same in every process and on every Python.

    int, str, bool and None differ; a float that is an integer equals that int; Decimal counts by
    value, aware datetimes by moment, an Enum as its value, a tuple as a list, a set without order,
    a dict by its keys as JSON writes them, a model instance by label and primary key.

    Raises InvalidKey, naming ``where`` and the place inside, for NaN, Infinity, an unsaved model
    instance, dict keys that JSON cannot tell apart, nesting without end, and every other type.
    """
    try:
        text = plain_text(value)
        return _encode(_form(value, (None, where))) if text is None else text
    except RecursionError:
        raise InvalidKey(
            f"{where}: it is nested too deeply, or contains itself; pass a flatter value"
        ) from None


def is_sent_as_it_is(value: object) -> bool:
    """Whether kombu's JSON leaves a value as it is: a plain one without a surrogate in its texts."""
    return is_plain(value) and "\\ud" not in json.dumps(value)


def is_plain(value: object) -> bool:
    """Whether a value is exact lists, dicts and scalars, in which kombu's JSON only joins surrogate pairs."""
    kind = type(value)
    if kind in _SCALARS:
        return True
    items: Iterable[object]
    if kind is list:
        items = value  # type: ignore[assignment]
    elif kind is dict and _is_plain_keyed(value):  # type: ignore[arg-type]
        items = value.values()  # type: ignore[attr-defined]
    else:
        return False
    if _SCALARS.issuperset(map(type, items)):
        return True
    for item in items:  # noqa: SIM110 - all() would cost a frame on every level
        if type(item) not in _SCALARS and not is_plain(item):
            return False
    return True


def _is_plain_keyed(value: dict[object, object]) -> bool:
    # kombu decodes a dict with "__type__" to a value of another type.
    return _ONLY_STR.issuperset(map(type, value)) and "__type__" not in value


def plain_text(value: object) -> str | None:
    """The canonical text of a plain value, None for one that needs a closer look.

    That is the C encoder's text, if it is canonical already; keys of other types would be sorted as numbers.
    """
    if not is_plain(value):
        return None
    try:
        # encode() sets up an encoder each time, which costs too much for one number.
        text = int.__repr__(value) if type(value) is int else "null" if value is None else _encode(value)
    except ValueError:  # NaN, or an int beyond Python's limit on digits: _form() names the place
        return None
    return None if _needs_walk(text) else text


def _needs_walk(text: str) -> bool:
    # For a key that looks like our mark, a surrogate, or a float such as 1.0 (needless for one in a str).
    if '"!' in text or "\\ud" in text:
        return True
    return (".0" in text or "e+" in text) and _INTEGRAL_FLOAT.search(text) is not None


def _form(value: object, trail: Trail) -> object:
    kind = type(value)
    if kind in _FORMS:
        return _FORMS[kind](value, trail)
    for base in kind.__mro__:
        if base in _FORMS:
            return _FORMS[base](value, trail)
    if dataclasses.is_dataclass(kind):
        return _dataclass(value, trail)
    label = _model_label(value)
    if label is None:
        raise _refusal(trail, f"{_type_name(kind)} has no canonical form; pass an id, a string or a number")
    return _model(value, label, trail)


def _same(value: object, _trail: Trail) -> object:
    return value


def _text(value: str, _trail: Trail) -> str:
    return joined(value)


def joined(value: str) -> str:
    """The text as an exact str, with the two characters of each surrogate pair as one, as JSON joins them."""
    value = str.__str__(value)
    if value.isascii():
        return value
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def _integer(value: int, trail: Trail) -> int:
    try:
        int.__repr__(value)
    except ValueError:
        raise _refusal(trail, "an int with so many digits has no text; pass it as a string") from None
    return value


def _float(value: float, trail: Trail) -> float:
    if not math.isfinite(value):
        raise _refusal(trail, "NaN and Infinity have no canonical form; pass a finite number or None")
    return int(value) if value.is_integer() else value


def _decimal(value: Decimal, trail: Trail) -> object:
    if not value.is_finite():
        raise _refusal(trail, "NaN and Infinity have no canonical form; pass a finite Decimal or None")
    # 1.50 counts as 1.5, a huge exponent is not written as zeros, and -0 is 0.
    return _marked("decimal", _UNROUNDED.to_sci_string(_UNROUNDED.normalize(value)) if value else "0")


def _datetime(value: datetime, trail: Trail) -> object:
    # Methods of datetime itself, because subclasses (pendulum, freezegun) override them.
    if datetime.utcoffset(value) is not None:
        try:
            value = datetime.astimezone(value, UTC)
        except OverflowError:
            raise _refusal(trail, "this moment is outside the years 1 to 9999 in UTC; pass a date") from None
    return _marked("datetime", datetime.isoformat(value))


def _set(value: Iterable[object], trail: Trail) -> object:
    by_text = {_encode(form): form for form in [_form(item, trail) for item in value]}
    return _marked("set", [by_text[text] for text in sorted(by_text)])


def _list(value: Iterable[object], trail: Trail) -> list[object]:
    return [_form(item, (trail, index)) for index, item in enumerate(value)]


def _mapping(value: Mapping[object, object], trail: Trail) -> dict[str, object]:
    form: dict[str, object] = {}
    for key, item in value.items():
        name = _key(key, trail)
        written = _MARK + name if name.startswith(_MARK) else name
        if written in form:
            raise _refusal(trail, f"two of its keys become {_shown(name)} in JSON; use strings as keys")
        form[written] = _form(item, (trail, name))
    return form


def _key(key: object, trail: Trail) -> str:
    # As JSON transport writes a key; Enum members that are a str or an int count as that.
    if type(key) is str and key.isascii():
        return key
    kind = next((base for base in type(key).__mro__ if base in _KEYS), None)
    if kind is None:
        raise _refusal(trail, f"a {_type_name(type(key))} cannot be a key in JSON; use strings as keys")
    return _KEYS[kind](key, trail)


def _float_key(key: float, trail: Trail) -> str:
    _float(key, trail)
    return float.__repr__(key)


def _dataclass(value: Any, trail: Trail) -> object:
    names = [field.name for field in dataclasses.fields(value)]
    fields = {name: _form(getattr(value, name), (trail, name)) for name in names}
    return _marked("dataclass", [_type_name(type(value)), fields])


def _model_label(value: object) -> str | None:
    # By _meta, since models cannot be imported before the apps are ready. A proxy counts as the model that
    # owns the table, as in Django's own comparison.
    if isinstance(value, type):
        return None
    model = getattr(getattr(value, "_meta", None), "concrete_model", None)
    label = getattr(getattr(model, "_meta", None), "label", None)
    return label if isinstance(label, str) else None


def _model(value: Any, label: str, trail: Trail) -> object:
    pk = value.pk
    if pk is None or (isinstance(pk, tuple) and None in pk):
        raise _refusal(trail, f"an unsaved {label} has no primary key; save it first")
    return _marked("model", [label, _form(pk, (trail, "pk"))])


def _marked(tag: str, form: object) -> dict[str, object]:
    return {_MARK + tag: form}


def _refusal(trail: Trail, reason: str) -> InvalidKey:
    steps: list[str | int] = []
    parent, step = trail
    while parent is not None:
        steps.append(step)
        parent, step = parent
    path = "".join(map(_step, reversed(steps))).removeprefix(".")
    return InvalidKey(f"{step}, at {path}: {reason}" if path else f"{step}: {reason}")


def _step(step: str | int) -> str:
    if isinstance(step, str) and step.isidentifier():
        return f".{step}"
    return f"[{_shown(step)}]"


def _shown(name: str | int) -> str:
    text = ascii(name)
    return text if len(text) <= _SHOWN_LENGTH else f"{text[:_SHOWN_LENGTH]}...'"


def _type_name(kind: type) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


_FORMS: dict[type, Callable[[Any, Trail], object]] = {
    type(None): _same,
    bool: _same,
    str: _text,
    int: _integer,
    float: _float,
    list: _list,
    tuple: _list,
    dict: _mapping,
    set: _set,
    frozenset: _set,
    Decimal: _decimal,
    datetime: _datetime,
    date: lambda value, _: _marked("date", date.isoformat(value)),
    time: lambda value, _: _marked("time", time.isoformat(value)),
    timedelta: lambda value, _: _marked("timedelta", timedelta.__floordiv__(value, _MICROSECOND)),
    UUID: lambda value, _: _marked("uuid", value.hex),
    bytes: lambda value, _: _marked("bytes", value.hex()),
    bytearray: lambda value, _: _marked("bytes", value.hex()),
    memoryview: lambda value, _: _marked("bytes", value.hex()),
    Enum: lambda value, trail: _form(value.value, trail),
    Promise: lambda value, trail: _text(str(value), trail),
}

_KEYS: dict[type, Callable[[Any, Trail], str]] = {
    type(None): lambda _key, _trail: "null",
    bool: lambda key, _trail: "true" if key else "false",
    str: _text,
    int: lambda key, trail: int.__repr__(_integer(key, trail)),
    float: _float_key,
}
