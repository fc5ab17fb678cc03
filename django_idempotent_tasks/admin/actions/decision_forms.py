"""What is typed beside a reason: other arguments, or a result; both are JSON."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ...ledger.encoding import given_json
from ...operations.dead_letters import Arguments
from .question import ReasonForm


class RedriveForm(ReasonForm):
    """``arguments`` replace the call's own, under the same key."""

    arguments = forms.CharField(
        label=gettext_lazy("Other arguments"),
        required=False,
        strip=False,
        help_text=gettext_lazy('Empty: its own. Else JSON: {"args": [...], "kwargs": {...}}'),
        widget=forms.Textarea(attrs={"rows": 4, "cols": 60}),
    )
    field_order = ("seen", "arguments", "reason")

    def clean_arguments(self) -> Arguments | None:
        """The lists that replace those of the call."""
        text = self.cleaned_data["arguments"]
        return parsed_arguments(text) if text.strip() else None


def parsed_arguments(text: str) -> Arguments:
    """Arguments as they are typed. Raises ValidationError."""
    found = _json(text)
    shape = {name: type(value) for name, value in found.items()} if isinstance(found, dict) else None
    if shape not in ({"args": list, "kwargs": dict}, {"args": list}, {"kwargs": dict}):
        raise forms.ValidationError(_('Write {"args": [...], "kwargs": {...}}, with one of both at least.'))
    return found.get("args", []), found.get("kwargs", {})


def _json(text: str) -> Any:
    try:
        return given_json(text)
    except ValueError as error:
        raise forms.ValidationError(_("This is no JSON: %(error)s") % {"error": error}) from None


class ResolveForm(ReasonForm):
    """The result that duplicates get."""

    result = forms.CharField(
        label=gettext_lazy("Result"),
        required=False,
        help_text=gettext_lazy("JSON; empty for none. Other calls of the key are answered with it."),
        widget=forms.Textarea(attrs={"rows": 4, "cols": 60}),
    )
    field_order = ("seen", "result", "reason")

    def clean_result(self) -> object:
        """The value."""
        return _json(self.cleaned_data["result"].strip() or "null")
