"""The confirmation page: it says what will happen to which row, and asks for a reason."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.translation import gettext_lazy as _

TEMPLATE = "admin/django_idempotent_tasks/confirm.html"


@dataclass(slots=True)
class Question:
    """``lines`` say what will happen, ``facts`` to which row, ``warnings`` what speaks against it."""

    title: str
    button: str
    lines: list[str]
    facts: list[tuple[str, str]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    is_grave: bool = False


class ReasonForm(forms.Form):
    """The reason, for the log. ``seen`` is the row as the page showed it."""

    seen = forms.CharField(widget=forms.HiddenInput, max_length=3000)
    reason = forms.CharField(
        label=_("Reason"),
        max_length=500,
        help_text=_("Kept in the log, with your name."),
        widget=forms.Textarea(attrs={"rows": 2, "cols": 60}),
    )

    @property
    def argument_fields(self) -> list[forms.BoundField]:
        """The fields of the call's arguments, which the page shows as a group."""
        return []

    @property
    def other_fields(self) -> list[forms.BoundField]:
        """The visible fields beside them."""
        arguments = {each.name for each in self.argument_fields}
        return [each for each in self.visible_fields() if each.name not in arguments]


def ask(
    admin: Any, request: HttpRequest, question: Question, form: forms.Form, *, back: str, target: str = ""
) -> TemplateResponse:
    """The page with the question. Its form is posted to ``target``, or to the page's own address."""
    context = {
        **admin.admin_site.each_context(request),
        "opts": admin.opts,
        "title": question.title,
        "subtitle": None,
        "question": question,
        "form": form,
        "back": back,
        "list_url": admin.list_url(request),
        "media": admin.media + form.media,
        "target": target,
    }
    request.current_app = admin.admin_site.name
    return TemplateResponse(request, TEMPLATE, context, status=400 if form.errors else 200)


def no_such(words: str) -> HttpResponse:
    """The answer to a form that no page of this admin sends."""
    return HttpResponse(words, status=400, content_type="text/plain; charset=utf-8")
