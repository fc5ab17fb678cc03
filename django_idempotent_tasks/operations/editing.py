"""The arguments of a dead letter as a person edits them: a text for each parameter of the task.

A value that the person may not see, that ``REDACT`` changes, or that JSON cannot give back as it is, is shown
empty. An empty text then keeps the stored value: what is hidden goes neither to the page nor, as its mask,
back into the call.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

from ..identity.arguments import Binder
from ..identity.text import harmless
from ..ledger.encoding import given_json
from ..messages.message import Message
from ..models import IdempotencyKey
from .dead_letters import Arguments
from .redaction import arguments_of, binder_of


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument: ``text`` is its value as JSON, empty where none was given or it is hidden."""

    name: str
    text: str = ""
    is_given: bool = False
    is_hidden: bool = False
    is_known: bool = True
    is_positional: bool = False


class Misfit(ValueError):
    """Typed arguments are not JSON, or do not fit the task; ``name`` is the argument, where it is one."""

    def __init__(self, problem: str, name: str = "") -> None:
        super().__init__(problem)
        self.name = name


@dataclass(frozen=True, slots=True)
class Editing:
    """The present call, the parameters of its task, and the arguments to edit."""

    message: Message
    binder: Binder
    arguments: tuple[Argument, ...]

    @classmethod
    def of(cls, row: IdempotencyKey, *, values: bool) -> Editing | None:
        """The arguments of a stored call by name; None where the task or the call has no names for them."""
        binder = binder_of(row.task)
        try:
            message = Message.decode(row.task, row.message or "")
        except ValueError:
            return None
        if binder is None:
            return None
        names = [binder.name_at(place) for place in range(len(message.args))]
        if len({*names} - {None}) < len(names) or {*names} & {*message.kwargs}:
            return None  # *args, or more arguments than the task takes now
        visible = arguments_of(row.task, message.args, message.kwargs) if values else {}
        given = dict(zip(names, message.args, strict=True)) | dict(message.kwargs)
        found = [
            _present(binder, str(name), value, visible, is_positional=name in names)
            for name, value in given.items()
        ]
        missing = [name for name in binder.names if name not in given and name not in binder.collecting]
        return cls(message, binder, (*found, *(Argument(name) for name in missing)))

    def edited(self, typed: Mapping[str, str]) -> Arguments | None:
        """The call's arguments with what was typed; None where nothing is other. Raises Misfit."""
        texts = {each.name: typed.get(each.name, "").strip() for each in self.arguments}
        if all(texts[each.name] == each.text for each in self.arguments):
            return None
        args, kwargs, is_broken = list[Any](), dict[str, Any](), False
        for each in self.arguments:
            is_given, value = self._value(each, texts[each.name])
            if is_given and each.is_positional and not is_broken:
                args.append(value)
            elif is_given:
                kwargs[each.name] = value
            else:
                is_broken = is_broken or each.is_positional
        check_fit(self.binder, (args, kwargs), [each.name for each in self.arguments])
        return args, kwargs

    def changed(self, typed: Mapping[str, str]) -> list[str]:
        """The names of the arguments that are other now."""
        return [each.name for each in self.arguments if typed.get(each.name, "").strip() != each.text]

    def _value(self, argument: Argument, text: str) -> tuple[bool, Any]:
        """Whether the argument is given, and its value."""
        if text == argument.text and argument.is_given:
            return True, self._stored(argument.name)
        return (False, None) if not text else (True, json_of(text, argument.name))

    def _stored(self, name: str) -> Any:
        if name in self.message.kwargs:
            return self.message.kwargs[name]
        names = [self.binder.name_at(place) for place in range(len(self.message.args))]
        return self.message.args[names.index(name)]


def json_of(text: str, name: str = "") -> Any:
    """The value that a text says. Raises Misfit with the remedy."""
    try:
        return given_json(text)
    except ValueError as error:
        words = _('This is not JSON: %(error)s. A text stands in quotes: "7".')
        raise Misfit(words % {"error": str(error).removesuffix(".")}, name) from None


def check_fit(binder: Binder, given: Arguments, names: list[str] | None = None) -> None:
    """Raise Misfit for arguments that do not fit the parameters of the task, as Python says it."""
    try:
        binder(*given)
    except TypeError as error:
        said = harmless(error)
        at_fault = [name for name in names or () if f"'{name}'" in str(error)]
        words = _("The arguments do not fit the task: %(error)s.") % {"error": said}
        raise Misfit(words, at_fault[0] if at_fault else "") from None


def call_as_json(row: IdempotencyKey, *, values: bool) -> str:
    """``{"args": ..., "kwargs": ...}`` of the stored call; empty where a part of it is hidden."""
    try:
        message = Message.decode(row.task, row.message or "")
    except ValueError:
        return ""
    visible = arguments_of(row.task, message.args, message.kwargs)
    given = [*message.args, *message.kwargs.values()]
    are_shown = values and len(visible) == len(given)
    texts = [json_text(value) for value in given]
    if not are_shown or None in texts or texts != [json_text(value) for value in visible.values()]:
        return ""
    return json_text({"args": list(message.args), "kwargs": dict(message.kwargs)}) or ""


def json_text(value: object) -> str | None:
    """A value as JSON for people; None where JSON would not give the same value back."""
    try:
        text = json.dumps(value, ensure_ascii=False)
        is_same = json.dumps(json.loads(text), ensure_ascii=False) == text and "__type__" not in text
    except Exception:  # noqa: BLE001  a project's classes may raise anything
        return None
    return (
        "".join(char if char.isprintable() else json.dumps(char)[1:-1] for char in text) if is_same else None
    )


def _present(
    binder: Binder, name: str, value: object, visible: Mapping[str, Any], *, is_positional: bool
) -> Argument:
    text = json_text(value)
    is_hidden = text is None or name not in visible or json_text(visible[name]) != text
    is_known = name in binder.names or binder.accepts_any_keyword
    return Argument(
        name,
        "" if is_hidden or text is None else text,
        is_given=True,
        is_hidden=is_hidden,
        is_known=is_known,
        is_positional=is_positional,
    )
