"""The form of a redrive: its reason, and a field for each argument of the call and parameter of the task."""

from __future__ import annotations

from typing import Any

from django import forms
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ...models import IdempotencyKey
from ...operations.dead_letters import Arguments
from ...operations.editing import Argument, Editing, Misfit, call_as_json, check_fit, json_of
from ...operations.redaction import binder_of
from ..permissions import has
from ..words.wording import shown
from .question import ReasonForm

#: Characters of a value from which on its field has several lines.
_LONG = 60


class RedriveForm(ReasonForm):
    """The reason for a redrive, and other ``arguments`` for the call, as JSON."""

    arguments = forms.CharField(
        label=gettext_lazy("Other arguments"),
        required=False,
        strip=False,
        help_text=gettext_lazy(
            'Empty keeps the arguments of the call. Or write JSON: {"args": [...], "kwargs": {...}}'
        ),
        widget=forms.Textarea(attrs={"rows": 4, "cols": 60}),
    )
    field_order = ("seen", "arguments", "reason")

    def __init__(self, *args: Any, task: str, present: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.task, self.present = task, present
        self.fields["arguments"].initial = present

    def clean(self) -> dict[str, Any]:
        """Adds ``edited``: the arguments that replace those of the call; None where they are the same."""
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        text = (cleaned.get("arguments") or "").strip()
        cleaned["edited"] = None
        if text and text != self.present.strip():
            try:
                cleaned["edited"] = self._parsed(text)
            except Misfit as error:
                self.add_error("arguments", str(error))
        return cleaned

    def _parsed(self, text: str) -> Arguments:
        found, binder = json_of(text), binder_of(self.task)
        shape = {name: type(value) for name, value in found.items()} if isinstance(found, dict) else None
        if shape not in ({"args": list, "kwargs": dict}, {"args": list}, {"kwargs": dict}):
            raise Misfit(_('Write {"args": [...], "kwargs": {...}}; you may leave out one of the two.'))
        given: Arguments = found.get("args", []), found.get("kwargs", {})
        if binder is not None:
            check_fit(binder, given)
        return given

    @property
    def changed_names(self) -> str:
        """Which arguments are other now, for the log: their names, where they have some."""
        return ""


class ByNameForm(ReasonForm):
    """The reason for a redrive, and a field for each argument of the call and each parameter of the task."""

    field_order = ("seen",)

    def __init__(self, *args: Any, editing: Editing, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.editing = editing
        reason = self.fields.pop("reason")
        self._names = {f"argument_{place}": each.name for place, each in enumerate(editing.arguments)}
        for name, each in zip(self._names, editing.arguments, strict=True):
            self.fields[name] = _field(each)
        self.fields["reason"] = reason

    @property
    def argument_fields(self) -> list[forms.BoundField]:
        """The fields of the arguments, for the page."""
        return [self[name] for name in self._names]

    def clean(self) -> dict[str, Any]:
        """Adds ``edited``: the arguments that replace those of the call; None where they are the same."""
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        cleaned["edited"] = None
        try:
            cleaned["edited"] = self.editing.edited(self._typed)
        except Misfit as error:
            at = next((field for field, name in self._names.items() if name == error.name), None)
            self.add_error(at, str(error))
        return cleaned

    @property
    def _typed(self) -> dict[str, str]:
        return {name: self.cleaned_data.get(field) or "" for field, name in self._names.items()}

    @property
    def changed_names(self) -> str:
        """Which arguments are other now, for the log: their names, never their values."""
        return ", ".join(map(shown, self.editing.changed(self._typed)))


def form_of_redrive(request: HttpRequest, row: IdempotencyKey, *args: Any, **kwargs: Any) -> ReasonForm:
    """The form that this person fills in; values only for who may see and edit arguments."""
    if not has(request, "edit_arguments"):
        return ReasonForm(*args, **kwargs)
    values = has(request, "view_payload")
    editing = Editing.of(row, values=values)
    if editing is not None:
        return ByNameForm(*args, editing=editing, **kwargs)
    return RedriveForm(*args, task=row.task, present=call_as_json(row, values=values), **kwargs)


def _field(each: Argument) -> forms.CharField:
    rows = min(1 + len(each.text) // _LONG, 8)
    return forms.CharField(
        label=shown(each.name),
        required=False,
        strip=False,
        initial=each.text,
        help_text=_help(each),
        widget=forms.Textarea(attrs={"rows": rows, "cols": 60, "spellcheck": "false"}),
    )


def _help(each: Argument) -> str:
    if each.is_hidden:
        return _("The value is hidden: leave this empty to keep it, or write JSON to replace it.")
    if not each.is_known:
        return _("The task has no parameter of this name: leave it empty to drop the value.")
    if not each.is_given:
        return _("The call does not have it: leave it empty for the task's default, or write JSON.")
    return _("Write JSON, or leave it empty for the task's default.")
