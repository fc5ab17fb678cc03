"""Turns a call's arguments into what arrives in the worker, and binds them to the parameters' names."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from inspect import Parameter
from typing import Any, cast

from kombu.utils.json import dumps, loads

from ..exceptions import ConfigurationError, InvalidKey
from .canonical import is_sent_as_it_is
from .lost_keys import lost_key

_STARS: dict[object, str] = {Parameter.VAR_POSITIONAL: "*", Parameter.VAR_KEYWORD: "**"}
_BY_POSITION = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


class Binder:
    """Binds calls to the parameters of one function, as Python itself would.

    Equal arguments give equal dicts, whether positional, by keyword or by default; ``*args`` and
    ``**kwargs`` are collected under their own names. A decorated function is seen through
    ``functools.wraps``. ``skip_first`` leaves out the parameter that takes the task (``bind=True``).
    """

    __slots__ = ("_positions", "any_keyword", "bind", "collecting", "names")

    def __init__(self, function: Callable[..., object], *, skip_first: bool) -> None:
        """Read the signature once.

        Raises ConfigurationError for a callable without a readable signature, and when there is no
        first parameter to skip.
        """
        parameters = _parameters(function, skip_first=skip_first)
        self.names: tuple[str, ...] = tuple(parameter.name for parameter in parameters)
        #: The name of the parameter that collects unknown keywords (``**kwargs``), or None.
        self.any_keyword = _name_of(Parameter.VAR_KEYWORD, parameters)
        #: The names of the parameters that collect others (``*args``, ``**kwargs``).
        self.collecting = frozenset(each.name for each in parameters if each.kind in _STARS)
        positions = [parameter.name for parameter in parameters if parameter.kind in _BY_POSITION]
        self._positions = (*positions, _name_of(Parameter.VAR_POSITIONAL, parameters))
        #: The function behind :meth:`__call__`, which takes the arguments as a call passes them.
        self.bind = _compile(parameters, name=_function_name(function))

    @property
    def accepts_any_keyword(self) -> bool:
        """Whether the function takes keywords that are not among ``names``."""
        return self.any_keyword is not None

    def name_at(self, position: int) -> str | None:
        """Return the name of the parameter that takes the argument at a position, None if none does."""
        return self._positions[min(position, len(self._positions) - 1)]

    def __call__(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, object]:
        """Return every parameter's value by name.

        Raises TypeError, worded as by a call of the function, when the arguments do not fit.
        """
        return self.bind(*args, **kwargs)


def check_given(args: object, kwargs: object, *, task: str) -> None:
    """Raise TypeError, as Celery does when it sends, for arguments that are no list, tuple or mapping.

    Comes before anything reads the arguments: an iterator would be empty afterwards.
    """
    if args is not None and not isinstance(args, list | tuple):
        raise TypeError(f"args of {task} must be a list or a tuple, not a {type(args).__qualname__}")
    if kwargs is not None and not isinstance(kwargs, Mapping):
        raise TypeError(f"kwargs of {task} must be a mapping, not a {type(kwargs).__qualname__}")


def as_sent(
    binder: Binder, args: Sequence[Any], kwargs: Mapping[str, Any], *, task: str
) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """Return the arguments as the worker gets them: after one trip through kombu's JSON.

    Raises InvalidKey, naming the argument, for a value that cannot be sent or read, and for a dict of which
    JSON would lose a key.
    """
    try:
        if is_sent_as_it_is(list(args)) and is_sent_as_it_is(kwargs):
            return args, kwargs
        _check_lost_keys(binder, args, kwargs, task=task)
        sent_args, sent_kwargs = loads(dumps([list(args), kwargs]))
    except InvalidKey:
        raise
    except Exception as error:  # a type's own __json__() may raise anything
        raise InvalidKey(_refusal(binder, args, kwargs, task=task)) from error
    return sent_args, sent_kwargs


def _named(
    binder: Binder, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Iterator[tuple[str | None, Any]]:
    for position, value in enumerate(args):
        yield binder.name_at(position), value
    yield from kwargs.items()


def _check_lost_keys(binder: Binder, args: Sequence[Any], kwargs: Mapping[str, Any], *, task: str) -> None:
    """Raise InvalidKey for a dict of which JSON would lose a key, which nothing shows after the trip."""
    for name, value in _named(binder, args, kwargs):
        lost = lost_key(value)
        if lost is not None:
            raise InvalidKey(
                f"argument {name!r} of {task}: two keys of a dict in it become {lost} in JSON, which would"
                " drop one; use strings as keys"
            )


def _refusal(binder: Binder, args: Sequence[Any], kwargs: Mapping[str, Any], *, task: str) -> str:
    for name, value in _named(binder, args, kwargs):
        try:
            loads(dumps(value))
        except Exception:  # noqa: BLE001  the error of as_sent() again
            return (
                f"argument {name!r} of {task}: the JSON serializer refuses this {type(value).__qualname__}; "
                "pass ids, strings, numbers, and lists or dicts of them"
            )
    return f"arguments of {task}: the JSON serializer refuses them; use strings as keywords"


def _parameters(function: Callable[..., object], *, skip_first: bool) -> list[Parameter]:
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"the parameters of {_function_name(function)} cannot be read; make the task a plain function"
        ) from error
    if not skip_first or (parameters and parameters[0].kind is Parameter.VAR_POSITIONAL):
        return parameters
    if not parameters or parameters[0].kind not in _BY_POSITION:
        raise ConfigurationError(
            f"{_function_name(function)}() has no parameter for the task; add `self` or drop bind=True"
        )
    return parameters[1:]


def _compile(parameters: list[Parameter], *, name: str) -> Callable[..., dict[str, object]]:
    # Only parameter names, which Python has checked to be identifiers, become source; defaults are passed
    # as values. Such a function binds in 0.3 us, Signature.bind() in 4.
    result = ", ".join(f"{parameter.name!r}: {parameter.name}" for parameter in parameters)
    source = f"lambda {', '.join(_declarations(parameters))}: {{{result}}}"
    defaults = {_default_name(index): parameter.default for index, parameter in enumerate(parameters)}
    bind = eval(source, {"__builtins__": {}, **defaults})  # noqa: S307
    bind.__qualname__ = name  # what Python's TypeErrors call it
    return cast("Callable[..., dict[str, object]]", bind)


def _declarations(parameters: list[Parameter]) -> Iterator[str]:
    previous = None
    for index, parameter in enumerate(parameters):
        kind = parameter.kind
        if previous is Parameter.POSITIONAL_ONLY and kind is not previous:
            yield "/"
        if kind is Parameter.KEYWORD_ONLY and previous not in {kind, Parameter.VAR_POSITIONAL}:
            yield "*"
        default = "" if parameter.default is Parameter.empty else f"={_default_name(index)}"
        yield f"{_STARS.get(kind, '')}{parameter.name}{default}"
        previous = kind
    if previous is Parameter.POSITIONAL_ONLY:
        yield "/"


def _default_name(index: int) -> str:
    return f"default_{index}"


def _name_of(kind: object, parameters: list[Parameter]) -> str | None:
    return next((parameter.name for parameter in parameters if parameter.kind is kind), None)


def _function_name(function: Callable[..., object]) -> str:
    return getattr(function, "__qualname__", type(function).__qualname__)
