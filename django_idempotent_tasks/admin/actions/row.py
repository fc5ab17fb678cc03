"""An action on one row: a page asks, a POST carries it out on the row as it was shown, ``audit`` keeps it."""

from __future__ import annotations

import copy
import re
from abc import ABC, abstractmethod
from typing import Any

from django.contrib import messages
from django.contrib.admin.utils import quote, unquote
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _

from ...operations.dead_letters import Decision
from ..permissions import has
from ..words.ledger import alias
from ..words.wording import shown
from .audit import note
from .question import Question, ReasonForm, ask, no_such

_NUMBER, _MOST = re.compile(r"[0-9]{1,10}"), 2**31 - 1


class RowAction(ABC):
    """An action of a person on one row, with permissions and a reason."""

    slug: str
    label: Any
    #: Codenames of permissions of this app; a person needs all of them.
    permissions: tuple[str, ...]
    form: type[ReasonForm] = ReasonForm
    #: Whether it loses something or may do something twice: its button looks so.
    is_grave = False
    #: What the row's page offers, after "You can".
    offer: Any = ""

    def is_allowed(self, request: HttpRequest, row: Any) -> bool:  # noqa: ARG002
        """Whether this person may act on this row."""
        return has(request, *self.permissions)

    def form_for(self, request: HttpRequest, row: Any, *args: Any, **kwargs: Any) -> ReasonForm:  # noqa: ARG002
        """The form that this person fills in."""
        return self.form(*args, **kwargs)

    def entry(self, form: ReasonForm) -> str:
        """The text of the log entry."""
        return f"{self.label}: {form.cleaned_data['reason']}"

    @abstractmethod
    def fits(self, row: Any) -> bool:
        """Whether the row is in a state for this action."""

    @abstractmethod
    def unfit(self, row: Any) -> str:
        """Why the action no longer fits the row, and what became of the row."""

    @abstractmethod
    def question(self, request: HttpRequest, row: Any) -> Question:
        """The question on the confirmation page."""

    @abstractmethod
    def carry_out(self, request: HttpRequest, row: Any, form: ReasonForm) -> Decision:
        """Act on the row as it was shown; says whether that was done, and if not why."""

    @abstractmethod
    def done(self, row: Any) -> str:
        """The message for a person after it was done."""

    def find(self, admin: Any, request: HttpRequest, object_id: str) -> Any:
        """The row, even if it has left the list meanwhile; None where it is gone."""
        return admin.get_object(request, object_id)

    def mark(self, row: Any) -> str:
        """What must be unchanged in the row for the form to be carried out, as text."""
        return str(row.token)

    def as_seen(self, row: Any, mark: str) -> Any:
        """The row with the values that ``mark`` names. Raises ValueError for a forged mark."""
        row.token = number_of(mark)
        return row


def number_of(text: str) -> int:
    """A token or a state as a form carries it. Raises ValueError for what no column holds."""
    if not _NUMBER.fullmatch(text) or int(text) > _MOST:
        msg = "No row has the number of this form."
        raise ValueError(msg)
    return int(text)


def act(admin: Any, action: RowAction, request: HttpRequest, object_id: str) -> HttpResponse:
    """Show the question; by POST carry the action out."""
    if request.method not in {"GET", "HEAD", "POST"}:
        return HttpResponseNotAllowed(["GET", "POST"])
    row = action.find(admin, request, unquote(object_id))
    if not admin.has_view_permission(request, row):
        raise PermissionDenied
    if row is None:
        found: HttpResponse = admin.missing(request)
        return found
    if not action.is_allowed(request, row):
        raise PermissionDenied
    if request.method != "POST":
        return _ask(
            admin, action, request, row, action.form_for(request, row, initial={"seen": action.mark(row)})
        )
    form = action.form_for(request, row, request.POST)
    return (
        _carry_out(admin, action, request, row, form)
        if form.is_valid()
        else _ask(admin, action, request, row, form)
    )


def _ask(admin: Any, action: RowAction, request: HttpRequest, row: Any, form: ReasonForm) -> HttpResponse:
    if not action.fits(row):
        messages.error(request, shown(action.unfit(row)))
        return HttpResponseRedirect(admin.list_url(request))
    return ask(admin, request, action.question(request, row), form, back=_page_of(admin, request, row))


def _carry_out(
    admin: Any, action: RowAction, request: HttpRequest, row: Any, form: ReasonForm
) -> HttpResponse:
    try:
        seen = action.as_seen(copy.copy(row), form.cleaned_data["seen"])
    except ValueError:
        return no_such(_("This form was changed on its way: go back to the row and begin again."))
    with transaction.atomic(using=alias()):
        decision = action.carry_out(request, seen, form)
        if decision.done:
            note(request, row, action.entry(form))
    if decision.done:
        messages.success(request, shown(action.done(row)))
    elif form.errors:
        return _ask(admin, action, request, row, form)
    else:
        messages.error(request, shown(decision.problem))
    return HttpResponseRedirect(_page_of(admin, request, row))


def _page_of(admin: Any, request: HttpRequest, row: Any) -> str:
    """The address of the row's page if this list still has the row, else of the list."""
    if not admin.get_queryset(request).filter(pk=row.pk).exists():
        return str(admin.list_url(request))
    name = f"admin:{admin.opts.app_label}_{admin.opts.model_name}_change"
    url = reverse(name, args=[quote(row.pk)], current_app=admin.admin_site.name)
    query = request.GET.urlencode()
    return f"{url}?{query}" if query else url
