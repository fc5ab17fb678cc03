"""The filters of the lists: fixed choices, ages, and texts that must be equal."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from ...identity.key import BEAT
from ...ledger.moments import shifted
from ...models import BatchState
from ...operations.task_names import guarded_names, plain_names
from ...states import Category, State
from ..words.batches import batch_state_word
from ..words.cells import task_choice
from ..words.ledger import alias, now
from ..words.wording import category_word, shown, state_word

#: The ages that a filter offers, by their name in an address: the span, and its words.
AGES = {
    "1h": (timedelta(hours=1), _("in the last hour")),
    "24h": (timedelta(hours=24), _("in the last 24 hours")),
    "7d": (timedelta(days=7), _("in the last 7 days")),
    "over-1h": (timedelta(hours=1), _("over an hour ago")),
    "over-24h": (timedelta(hours=24), _("over 24 hours ago")),
    "over-7d": (timedelta(days=7), _("over 7 days ago")),
}


def age_of(name: str, moment: datetime) -> tuple[datetime | None, datetime | None]:
    """The earliest and the latest moment of a choice; None is no bound."""
    span, _words = AGES.get(name, (None, None))
    if span is None:
        return None, None
    edge = shifted(moment, -span)
    return (None, edge) if name.startswith("over") else (edge, None)


class EqualFilter(admin.SimpleListFilter):
    """A filter by the value of a column. The list applies it, because the list bounds what it reads."""

    column: str

    def equal(self) -> object:
        """The value that the column must have; None where nothing was chosen."""
        raise NotImplementedError

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:  # noqa: ARG002
        return queryset


class ChoiceFilter(EqualFilter):
    """A filter by one of a few numbers."""

    def numbers(self) -> list[tuple[int, str]]:
        """The choices: number and word."""
        raise NotImplementedError

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:  # noqa: ARG002
        return [(str(number), word) for number, word in self.numbers()]

    def equal(self) -> int | None:
        value = self.value()
        return int(str(value)) if value in {str(number) for number, _word in self.numbers()} else None


class StateFilter(ChoiceFilter):
    """The states of keys."""

    title, parameter_name, column = _("state"), "state", "state"

    def numbers(self) -> list[tuple[int, str]]:
        return [(state.value, state_word(state)) for state in State]


class DeadStateFilter(ChoiceFilter):
    """The states of dead letters."""

    title, parameter_name, column = _("state"), "state", "state"

    def numbers(self) -> list[tuple[int, str]]:
        return [(state.value, state_word(state)) for state in (State.REVIEW, State.FAILED)]


class BatchStateFilter(ChoiceFilter):
    """The states of batches."""

    title, parameter_name, column = _("state"), "state", "state"

    def numbers(self) -> list[tuple[int, str]]:
        return [(state.value, batch_state_word(state)) for state in BatchState]


class DiscardedFilter(admin.SimpleListFilter):
    """Shows the discarded dead letters instead of those that wait for a decision."""

    title, parameter_name = _("discarded"), "discarded"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:  # noqa: ARG002
        return [("1", _("those that were discarded"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:  # noqa: ARG002
        return queryset

    def choices(self, changelist: Any) -> Iterator[Any]:
        """The choices; the first stands for the dead letters that wait, not for all."""
        for number, choice in enumerate(super().choices(changelist)):
            yield choice | ({} if number else {"display": _("those that wait")})


class CategoryFilter(ChoiceFilter):
    """The categories of failures."""

    title, parameter_name, column = _("category"), "category", "category"

    def numbers(self) -> list[tuple[int, str]]:
        return [(category.value, category_word(category)) for category in Category]


class AgeFilter(admin.SimpleListFilter):
    """A filter by a moment of the row: within the last hours or days, or before."""

    column: str

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:  # noqa: ARG002
        return [(name, words) for name, (_span, words) in AGES.items()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        after, before = age_of(self.value() or "", now(request))
        if after is not None:
            queryset = queryset.filter(**{f"{self.column}__gte": after})
        return queryset if before is None else queryset.filter(**{f"{self.column}__lte": before})


class MadeFilter(AgeFilter):
    """When a key was made."""

    title, parameter_name, column = _("made"), "made", "created_at"


class EndedFilter(AgeFilter):
    """When a dead letter ended."""

    title, parameter_name, column = _("ended"), "ended", "finished_at"


class HappenedFilter(AgeFilter):
    """When an attempt failed."""

    title, parameter_name, column = _("failed"), "at", "at"


class TextFilter(EqualFilter):
    """A filter by a text that a person types in full."""

    template = "admin/django_idempotent_tasks/text_filter.html"

    def equal(self) -> str | None:
        return self.value() or None

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:  # noqa: ARG002
        return []

    def has_output(self) -> bool:
        return True

    def choices(self, changelist: Any) -> Iterator[Any]:
        others = {name: value for name, value in changelist.params.items() if name != self.parameter_name}
        value = self.value()
        yield {
            "name": self.parameter_name,
            "value": value or "",
            "shown": shown(value) if value else "",
            "others": others,
            "clear": changelist.get_query_string(remove=[self.parameter_name]),
        }


class TaskFilter(EqualFilter):
    """The guarded tasks that are known here, or were counted in the last hours; any other by its name."""

    title, parameter_name, column = _("task"), "task", "task"

    def equal(self) -> str | None:
        return self.value() or None

    def names(self) -> list[str]:
        """The names that are offered."""
        return guarded_names(alias())

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:  # noqa: ARG002
        names, chosen = self.names(), self.value()
        if chosen and chosen not in names:
            names.append(chosen)
        return [(name, task_choice(name)) for name in names]


class AnyTaskFilter(TaskFilter):
    """The same with plain tasks, whose failures may be recorded too."""

    def names(self) -> list[str]:
        return [*super().names(), *plain_names()]


class PeriodicFilter(admin.SimpleListFilter):
    """Whether runs of periodic tasks that succeeded are listed: they hide all others."""

    title, parameter_name = _("periodic runs"), "periodic"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:  # noqa: ARG002
        return [("shown", _("shown")), ("only", _("only these"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self.value() == "only":
            return queryset.filter(key_text__startswith=BEAT)
        if hides_periodic(request):
            return queryset.exclude(state=State.SUCCEEDED, key_text__startswith=BEAT)
        return queryset

    def choices(self, changelist: Any) -> Iterator[Any]:
        """The choices; the first hides those runs that succeeded."""
        for number, choice in enumerate(super().choices(changelist)):
            yield choice | ({} if number else {"display": _("hidden when they succeeded")})


def hides_periodic(request: HttpRequest) -> bool:
    """Whether a list of keys leaves out periodic runs that succeeded: not where a person named something."""
    return not any(request.GET.get(name) for name in ("periodic", "task", "q"))


class ScopeFilter(TextFilter):
    """The tenant."""

    title, parameter_name, column = _("scope"), "scope", "scope"


class SignatureFilter(TextFilter):
    """The signature of an error."""

    title, parameter_name, column = _("error signature"), "signature", "signature"
