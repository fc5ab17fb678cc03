"""The one search box of the lists: what it found, and how far it looked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ...operations import finding
from ...operations.finding import Term
from ..permissions import has
from ..words.ledger import alias

#: Where a request keeps what its list says of the search.
NOTE = "_idempotent_search_note"
HELP = gettext_lazy(
    "An id of a call, a digest or its beginning, a value in the key (7 finds order_id=7), a task's short"
    " name, or a scope"
)


@dataclass(frozen=True, slots=True)
class Looked:
    """Where a search looks that no index answers: the newest of ``rows`` by ``moment``; None: ``READ``."""

    rows: QuerySet[Any]
    moment: str
    read: int | None = None


def term_of(request: HttpRequest, text: str) -> Term:
    """What this person typed; keys that are made of arguments are found only by who may see them."""
    scope = request.GET.get("scope") or None
    return Term(alias(), text.strip(), scope, values=has(request, "view_payload"))


def keys_named(term: Term) -> set[UUID]:
    """The digests of keys that a term names by an index."""
    return finding.by_index(term)


def found_in(request: HttpRequest, term: Term, looked: Looked) -> tuple[Any, ...]:
    """The primary keys of the newest rows that a term names; the list says how far that looked."""
    read = looked.read or finding.READ
    hits = finding.among_the_newest(looked.rows, looked.moment, term, read=read)
    words = [_("Searched: ids and values in full, of any age, and the newest %(read)s rows.")]
    if hits.has_more:
        words.append(_("More of them match: these are the newest %(most)s. Filter by the task instead."))
    setattr(request, NOTE, " ".join(words) % {"read": f"{read:,}", "most": f"{finding.MOST:,}"})
    return hits.found


def digests_of(request: HttpRequest, text: str, looked: Looked) -> set[UUID]:
    """The keys that a search names; ``looked`` are rows of keys."""
    term = term_of(request, text)
    named = keys_named(term)
    if term.is_an_id and looked.rows.filter(pk__in=named).exists():
        setattr(request, NOTE, _("Found by its id."))
        return named
    return named | set(found_in(request, term, looked))
