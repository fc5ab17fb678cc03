"""Redrives or discards many dead letters: the picked ones, or all that match; first a page says how many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from ...models import IdempotencyKey
from ...operations import redrives
from ...operations.dead_letters import Decision
from ...operations.selection import Selection
from ..permissions import has
from ..words.ledger import alias
from ..words.wording import shown
from .audit import note, who
from .decisions import DecisionAction, Discard, Redrive
from .matching import allowed, count, problems, selection_of, told
from .question import Question, ReasonForm, ask, no_such
from .row import number_of

#: How many picked rows one request redrives itself, and how many rows one request discards.
PICKED, BITE = 100, 1000
#: The words for picked rows in a question.
PICKED_WORD = gettext_lazy("picked")
#: How many problems are shown one by one.
LISTED = 10


class ManyForm(ReasonForm):
    """The form for picked rows; ``seen`` holds their digests and tokens."""

    seen = forms.CharField(widget=forms.HiddenInput, max_length=20_000)


class MatchingForm(ReasonForm):
    """The form for all that match; ``seen`` holds the selection."""

    seen = forms.CharField(widget=forms.HiddenInput, max_length=20_000)
    rate = forms.IntegerField(
        label=gettext_lazy("Rate"),
        required=False,
        min_value=1,
        max_value=redrives.FASTEST,
        help_text=gettext_lazy("The redrive sends at most this many keys a second; empty: no limit."),
    )
    field_order = ("seen", "rate", "reason")


@dataclass(frozen=True, slots=True)
class Verb:
    """A decision about many dead letters."""

    action: type[DecisionAction]

    @property
    def slug(self) -> str:
        """Its name in addresses."""
        return self.action.slug

    @property
    def permission(self) -> str:
        """The permission for keys in FAILED."""
        return self.action.permissions[0]

    @property
    def is_redrive(self) -> bool:
        """Whether the sweeper carries it out, so that there is no limit."""
        return self.action is Redrive

    def is_allowed(self, request: HttpRequest) -> bool:
        """Whether this person may decide so about any dead letter."""
        return has(request, self.permission) or has(request, "resolve_review")


VERBS = (Verb(Redrive), Verb(Discard))


def ask_picked(admin: Any, request: HttpRequest, verb: Verb, rows: list[IdempotencyKey]) -> HttpResponse:
    """Ask about picked rows."""
    seen = " ".join(f"{row.digest.hex}:{row.token}" for row in rows)
    form = ManyForm(initial={"seen": seen})
    which = Selection(digests=tuple(row.digest for row in rows))
    return _ask(admin, request, verb, form, len(rows), which, _problems_of(verb, rows))


def matching(admin: Any, request: HttpRequest, verb: Verb) -> HttpResponse:
    """Ask about all that match the query; by POST carry out what was asked."""
    if not verb.is_allowed(request) or not admin.has_view_permission(request):
        raise PermissionDenied
    if request.method == "POST":
        return _carry_out(admin, request, verb)
    try:
        selection = allowed(request, selection_of(request), verb.permission)
    except ValueError:
        return no_such(_("A filter has a value that does not exist."))
    if selection is None:
        raise PermissionDenied
    number, is_bound = count(selection)
    if not verb.is_redrive and number > BITE:
        return _too_many(admin, request, number)
    form = MatchingForm(initial={"seen": selection.encode()})
    warnings = problems(selection) if verb.is_redrive else []
    return _ask(admin, request, verb, form, number, selection, warnings, is_bound=is_bound)


def _too_many(admin: Any, request: HttpRequest, number: int) -> HttpResponse:
    words = _(
        "%(number)s match; a page discards at most %(most)s. Narrow the filter, or use"
        " 'manage.py idem dead-letters discard'."
    )
    messages.error(request, words % {"number": f"{number:,}", "most": f"{BITE:,}"})
    return _back(admin, request)


def _ask(
    admin: Any,
    request: HttpRequest,
    verb: Verb,
    form: forms.Form,
    number: int,
    which: Selection,
    warnings: list[str],
    *,
    is_bound: bool = False,
) -> HttpResponse:
    is_picked = isinstance(form, ManyForm)
    words = str(PICKED_WORD) if is_picked else shown(which.words())
    many = ngettext("%(count)s dead letter", "%(count)s dead letters", number) % {"count": f"{number:,}"}
    if is_bound:
        many = _("more than %(count)s") % {"count": many}
    title = _("%(verb)s %(many)s?") % {"verb": verb.action.label, "many": many}
    if not verb.is_redrive:
        form.fields.pop("rate", None)
    facts = [(_("which"), words), (_("how many"), many), (_("of these"), told(which))]
    lines = _lines(verb, is_picked=is_picked)
    question = Question(title, f"{verb.action.label}", lines, facts, warnings, is_grave=not verb.is_redrive)
    name = f"admin:django_idempotent_tasks_deadletter_{verb.slug}_many"
    query = request.GET.urlencode()
    target = reverse(name, current_app=admin.admin_site.name) + (f"?{query}" if query else "")
    return ask(admin, request, question, form, back=_list(admin, request), target=target)


def _lines(verb: Verb, *, is_picked: bool) -> list[str]:
    if not verb.is_redrive:
        return [
            _("They leave the list and do not run; their records stay. Those that moved on are left alone.")
        ]
    lines = [_("The same calls run again, under their keys. Those that have moved on are left alone.")]
    if not is_picked:
        lines.append(
            _(
                "The sweeper redrives them; you can watch and stop it. Calls that fail from now on are not"
                " redriven, and calls that cannot be sent are skipped: the count may shrink, never grow."
            )
        )
    return lines


def _carry_out(admin: Any, request: HttpRequest, verb: Verb) -> HttpResponse:
    mark = str(request.POST.get("seen", ""))
    is_selection = mark.startswith("{")
    form = (MatchingForm if is_selection else ManyForm)(request.POST)
    try:
        if not form.is_valid():
            return _ask_again(admin, request, verb, form, Selection.decode(mark) if is_selection else None)
        return (_decide_matching if is_selection else _decide_picked)(admin, request, verb, form)
    except ValueError:
        return no_such(_("This form has no valid selection: go back to the list, and choose again."))


def _ask_again(
    admin: Any, request: HttpRequest, verb: Verb, form: forms.Form, selection: Selection | None
) -> HttpResponse:
    if selection is None:
        picked = Selection(digests=tuple(_tokens(str(request.POST.get("seen", "")))))
        return _ask(admin, request, verb, form, len(picked.digests or ()), picked, [])
    if (selection := allowed(request, selection, verb.permission)) is None:
        raise PermissionDenied
    return _ask(admin, request, verb, form, count(selection)[0], selection, [])


def _decide_matching(admin: Any, request: HttpRequest, verb: Verb, form: ReasonForm) -> HttpResponse:
    selection = allowed(request, Selection.decode(form.cleaned_data["seen"]), verb.permission)
    if selection is None:
        raise PermissionDenied
    if verb.is_redrive:
        return _begin(admin, request, form, selection)
    rows = list(selection.query(alias())[: BITE + 1])
    if len(rows) > BITE:
        return _too_many(admin, request, len(rows))
    return _decide(admin, request, verb, form, list(rows))


def _begin(admin: Any, request: HttpRequest, form: ReasonForm, selection: Selection) -> HttpResponse:
    """Write the operation that the sweeper carries out."""
    reason = form.cleaned_data["reason"]
    with transaction.atomic(using=alias()):
        operation = redrives.begin(
            selection, by=who(request), reason=reason, rate=form.cleaned_data.get("rate"), alias=alias()
        )
        note(request, operation, f"{_('Begun')}, {operation.total:,}: {reason}")
    messages.success(
        request, _("Begun: the sweeper redrives %(total)s dead letters.") % {"total": f"{operation.total:,}"}
    )
    if not has(request, "view_redriveoperation"):
        return _back(admin, request)
    name = "admin:django_idempotent_tasks_redriveoperation_change"
    return HttpResponseRedirect(reverse(name, args=[operation.pk], current_app=admin.admin_site.name))


def _decide_picked(admin: Any, request: HttpRequest, verb: Verb, form: ReasonForm) -> HttpResponse:
    tokens = _tokens(form.cleaned_data["seen"])
    if len(tokens) > PICKED and verb.is_redrive:
        selection = allowed(request, Selection(digests=tuple(tokens)), verb.permission)
        if selection is None:
            raise PermissionDenied
        return _begin(admin, request, form, selection)
    rows = list(IdempotencyKey.objects.using(alias()).filter(digest__in=list(tokens)[:BITE]))
    for row in rows:
        row.token = tokens[row.digest]
    return _decide(admin, request, verb, form, rows, gone=len(tokens) - len(rows))


def _tokens(mark: str) -> dict[UUID, int]:
    """The digests of picked rows, with the tokens that the page showed. Raises ValueError."""
    pairs = (pair.partition(":") for pair in mark.split())
    return {UUID(digest): number_of(token) for digest, _colon, token in pairs}


def _decide(
    admin: Any,
    request: HttpRequest,
    verb: Verb,
    form: ReasonForm,
    rows: Sequence[IdempotencyKey],
    *,
    gone: int = 0,
) -> HttpResponse:
    """Decide about each row in a transaction of its own, with its log entry; then say what was done."""
    action, done, refused = verb.action(), 0, []
    for row in rows:
        with transaction.atomic(using=alias()):
            decision = _decide_on(request, action, row, form)
            if decision.done:
                note(request, row, action.entry(form))
        if decision.done:
            done += 1
        else:
            refused.append(f"{shown(row)}: {shown(decision.problem)}")
    total = len(rows) + gone
    words = _("%(verb)s: done %(done)s of %(total)s.") % {"verb": action.label, "done": done, "total": total}
    messages.add_message(request, messages.SUCCESS if done == total else messages.WARNING, words)
    for problem in refused[:LISTED]:
        messages.warning(request, problem)
    if gone or len(refused) > LISTED:
        left = gone + max(len(refused) - LISTED, 0)
        messages.warning(
            request,
            _("%(left)s others were left alone: they were pruned, or have moved on.") % {"left": left},
        )
    return _back(admin, request)


def _decide_on(
    request: HttpRequest, action: DecisionAction, row: IdempotencyKey, form: ReasonForm
) -> Decision:
    if not action.is_allowed(request, row):
        return Decision(done=False, problem=_("you may not decide about keys in this state"))
    return action.carry_out(request, row, form)


def _problems_of(verb: Verb, rows: list[IdempotencyKey]) -> list[str]:
    if not verb.is_redrive or not rows:
        return []
    return problems(Selection(digests=tuple(row.digest for row in rows)))


def _list(admin: Any, request: HttpRequest) -> str:
    url = reverse("admin:django_idempotent_tasks_deadletter_changelist", current_app=admin.admin_site.name)
    query = request.GET.urlencode()
    return f"{url}?{query}" if query else url


def _back(admin: Any, request: HttpRequest) -> HttpResponse:
    return HttpResponseRedirect(_list(admin, request))
