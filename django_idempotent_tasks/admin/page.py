"""The base of all pages: read-only rows, no count of a whole table, every text shown as text."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, cast

from django import forms
from django.contrib import admin, messages
from django.contrib.admin import helpers
from django.contrib.admin.utils import unquote
from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import PermissionDenied
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils.encoding import iri_to_uri
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from ..operations.search import WINDOW
from ..operations.selection import NOT_IN_A_COLUMN
from .actions.row import RowAction, act
from .lists.filters import EqualFilter
from .lists.finding import HELP, NOTE
from .lists.window import CappedPaginator, Windowed
from .permissions import has
from .words.ledger import alias, now
from .words.wording import shown

STYLE = "django_idempotent_tasks/admin.css"


class _HarmlessRow:
    """A row whose ``str()`` is made harmless, for templates that print it; other attributes are the row's."""

    def __init__(self, row: Any) -> None:
        self._row, self._name = row, shown(row)

    def __str__(self) -> str:
        return self._name

    def __getattr__(self, name: str) -> Any:
        return getattr(vars(self)["_row"], name)


class BoundedChangeList(ChangeList):
    """A list whose filters read a bounded number of rows; ``is_all``: these were all rows."""

    is_all = True

    #: What the list says of a search; empty without one.
    search_note = ""

    @property
    def is_cut_short(self) -> bool:
        """Whether rows that were not looked at may be missed: not where there are more than can be paged."""
        return not self.is_all and not self.paginator.is_capped

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> QuerySet[Any]:
        found, admin = super().get_queryset(request, exclude_parameters), cast("Any", self.model_admin)
        specs = [spec for spec in self.filter_specs if isinstance(spec, EqualFilter)]
        equal = {spec.column: value for spec in specs if (value := spec.equal()) is not None}
        if any(isinstance(value, str) and NOT_IN_A_COLUMN.search(value) for value in equal.values()):
            return found.none()
        windowed: Windowed = admin.narrowed(request, found, equal)
        self.is_all = windowed.is_all
        self.search_note = getattr(request, NOTE, "")
        return windowed.rows.filter(**equal).defer(*admin.long_columns)

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        if self.multi_page:
            admin: Any = self.model_admin
            end = self.page_num * self.list_per_page
            self.result_list = admin.first_rows(self.queryset, end)[end - self.list_per_page : end]
        rows: list[Any] = list(self.result_list)
        for row in rows:
            row.seen_at = now(request)  # cells say how long ago something was
        self.result_list: Any = rows


class ReadOnlyAdmin(admin.ModelAdmin):  # type: ignore[type-arg]  # generic in the stubs only
    """A page whose rows change by transitions of the ledger only, never by a form."""

    show_full_result_count = False
    list_max_show_all = 0
    paginator = CappedPaginator
    sortable_by = ()
    #: Off, since facets count every choice.
    show_facets = admin.ShowFacets.NEVER
    #: Long columns, which a list does not read.
    long_columns: tuple[str, ...] = ()
    #: Columns with the permission that shows their values.
    hidden_columns: Mapping[str, str] = MappingProxyType({})
    #: How many rows a filter without an index reads.
    looked_at = WINDOW
    #: The heading of the list, in plain words.
    list_title: Any = ""
    list_about: Any = ""
    search_help_text = HELP
    #: The template of one row's page; its context comes from :meth:`page`. Without one: the list only.
    page_template = ""
    #: The actions of a person on one row.
    row_actions: tuple[type[RowAction], ...] = ()

    class Media:
        css = {"all": (STYLE,)}

    def has_add_permission(self, request: HttpRequest) -> bool:  # noqa: ARG002
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:  # noqa: ARG002
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:  # noqa: ARG002
        return False

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).using(alias())

    def get_list_display(self, request: HttpRequest) -> list[Any]:
        """The columns; one that this person may not see is replaced by its ``_hidden`` twin."""
        shown_to = {name for name, permission in self.hidden_columns.items() if not has(request, permission)}
        return [f"{name}_hidden" if name in shown_to else str(name) for name in self.list_display]

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:  # noqa: ARG002
        return BoundedChangeList

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest | None = None) -> bool:  # noqa: ARG002
        """Only the parameters of the list's own filters."""
        filters: Any = self.list_filter
        return lookup in {each.parameter_name for each in filters}

    def narrowed(self, request: HttpRequest, rows: QuerySet[Any], equal: dict[str, Any]) -> Windowed:  # noqa: ARG002
        """The rows that a filter by these values reads."""
        return Windowed(rows, is_all=True)

    def first_rows(self, rows: QuerySet[Any], end: int) -> QuerySet[Any]:  # noqa: ARG002
        """The rows in their order, at least the first ``end``: a subclass reads fewer than all."""
        return rows

    def get_urls(self) -> list[Any]:
        name = f"{self.opts.app_label}_{self.opts.model_name}"
        own = [
            path(
                f"<path:object_id>/{action.slug}/",
                self.admin_site.admin_view(self._acting(action)),
                name=f"{name}_{action.slug}",
            )
            for action in self.row_actions
        ]
        return own + super().get_urls()

    def _acting(self, action: type[RowAction]) -> Any:
        def view(request: HttpRequest, object_id: str) -> HttpResponse:
            return act(self, action(), request, object_id)

        return view

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",  # noqa: ARG002
        extra_context: Any = None,
    ) -> HttpResponse:
        """One row's page, for GET only. Django's own page would show every column as it is."""
        if request.method not in {"GET", "HEAD"}:
            raise PermissionDenied
        if not self.page_template:
            return HttpResponseRedirect(self.list_url(request))
        row = self.get_object(request, unquote(object_id))
        if not self.has_view_permission(request, row):
            raise PermissionDenied
        if row is None:
            return self.missing(request)
        context = self.context(request, row) | self.page(request, row) | (extra_context or {})
        request.current_app = self.admin_site.name
        return TemplateResponse(request, self.page_template, context)

    def history_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        """Django's own page of the row's log entries, with a harmless title."""
        row = self.get_object(request, unquote(object_id))
        if not self.has_view_permission(request, row):  # first, so that nobody learns whether the row exists
            raise PermissionDenied
        if row is None:
            return self.missing(request)
        own = {"title": _("History: %(row)s") % {"row": shown(row)}, "object": _HarmlessRow(row)}
        return super().history_view(request, object_id, own | (extra_context or {}))

    def missing(self, request: HttpRequest) -> HttpResponse:
        """The answer where this list does not have the row (any more)."""
        messages.warning(
            request, _("This list does not have the row any more: it was pruned, or has moved on.")
        )
        return HttpResponseRedirect(self.list_url(request))

    def page(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        """The context of one row's page."""
        raise NotImplementedError

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        own = {
            "window": f"{self.looked_at:,}",
            "list_actions": self.list_actions(request),
            "title": self.list_title or str(self.opts.verbose_name_plural).capitalize(),
            "subtitle": self.list_about or None,
        }
        return super().changelist_view(request, own | (extra_context or {}))

    def list_actions(self, request: HttpRequest) -> list[dict[str, str]]:  # noqa: ARG002
        """Links to the actions on all rows that match."""
        return []

    def context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        """The context that every page of a row needs."""
        actions = self._links(request, row)
        return {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": shown(row),
            "subtitle": None,
            "object_id": str(row.pk),
            "list_url": self.list_url(request),
            "actions": actions,
            "can": _offers([link["offer"] for link in actions if link["offer"]]),
            "media": self.media,
        }

    def list_url(self, request: HttpRequest) -> str:
        """The address of the list, with the filters that were set when the row was opened."""
        url = reverse(
            f"admin:{self.opts.app_label}_{self.opts.model_name}_changelist", current_app=self.admin_site.name
        )
        kept = request.GET.get("_changelist_filters", "")
        return f"{url}?{iri_to_uri(kept)}" if kept else url

    def _links(self, request: HttpRequest, row: Any) -> list[dict[str, Any]]:
        """Links to the actions that this person can take on the row now."""
        query = request.GET.urlencode()
        found = []
        for action in (kind() for kind in self.row_actions):
            if action.fits(row) and action.is_allowed(request, row):
                url = reverse(
                    f"admin:{self.opts.app_label}_{self.opts.model_name}_{action.slug}",
                    args=[row.pk],
                    current_app=self.admin_site.name,
                )
                found.append(
                    {
                        "url": f"{url}?{query}" if query else url,
                        "label": str(action.label),
                        "is_grave": action.is_grave,
                        "offer": str(action.offer),
                    }
                )
        return found

    @admin.display(description="")
    def action_checkbox(self, obj: Any) -> SafeString:
        """Django's own checkbox, with a harmless label."""
        label = _("Select %(row)s for an action") % {"row": shown(obj)}
        box = forms.CheckboxInput({"class": "action-select", "aria-label": label}, lambda _value: False)
        return box.render(helpers.ACTION_CHECKBOX_NAME, str(obj.pk))


def _offers(offers: list[str]) -> str:
    """What this person can do now, as a sentence; empty where it is nothing."""
    if not offers:
        return ""
    *others, last = offers
    listed = f"{', '.join(others)} {_('or')} {last}" if others else last
    return _("You can %(offers)s.") % {"offers": listed}
