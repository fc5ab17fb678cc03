"""Makes the cells of lists: moments as short spans, tasks by their short names, numbers with a label."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from ...ledger.moments import exact
from ...operations.text import span
from .badges import badge, look_of
from .wording import at, cell, dotted, shown, state_word

#: Seconds from which on tenths say nothing.
LONG = 60

_UNITS = (
    (86400, gettext_noop("%(number)s d")),
    (3600, gettext_noop("%(number)s h")),
    (60, gettext_noop("%(number)s min")),
    (1, gettext_noop("%(number)s s")),
)


def near(moment: datetime | None, now: datetime) -> SafeString:
    """``3 min ago`` or ``in 3 min``, in one unit; the moment itself is the title."""
    if moment is None:
        return SafeString("-")
    seconds = (exact(now) - exact(moment)).total_seconds()
    return format_html(
        '<time datetime="{}" title="{}">{}</time>', exact(moment).isoformat(), at(moment), _near(seconds)
    )


def _near(seconds: float) -> str:
    for size, words in _UNITS:
        if abs(seconds) >= size:
            number = _(words) % {"number": f"{int(abs(seconds) // size):,}"}
            return (_("%(span)s ago") if seconds > 0 else _("in %(span)s")) % {"span": number}
    return _("now")


def when(row: Any, column: str) -> SafeString:
    """A moment of a row, seen from the moment at which its list was read (``row.seen_at``)."""
    return near(getattr(row, column), row.seen_at)


def task_cell(name: object) -> SafeString:
    """A task by its short name, with its module small below; the full name is the title."""
    line = shown(name)
    module, _dot, short = line.rpartition(".")
    if not module:
        return format_html('<span class="idem-task">{}</span>', cell(short))
    return format_html(
        '<span class="idem-task" title="{}">{} <small>{}</small></span>', line, cell(short), dotted(module)
    )


def task_choice(name: str) -> str:
    """A task as a choice of a filter: one line of text, since a theme may put it into an ``option``."""
    module, _dot, short = shown(name).rpartition(".")
    return f"{cell(short)} ({cell(module)})" if module else cell(short)


def took(start: datetime, end: datetime) -> str:
    """How long something took: in tenths of a second up to a minute."""
    seconds = (exact(end) - exact(start)).total_seconds()
    return span(seconds) if seconds >= LONG else _("%(seconds).1f s") % {"seconds": max(seconds, 0.0)}


def scope_cell(scope: str | None) -> SafeString:
    """A tenant; where there is none a card leaves the line out."""
    if scope is None:
        return SafeString('<span class="idem-nothing">-</span>')
    return labelled(_("scope"), cell(scope))


def with_small(first: object, small: str) -> SafeString:
    """What a cell says, with a further word small below it."""
    return format_html('{}<small class="idem-small">{}</small>', first, "" if small == "-" else small)


def labelled(label: object, value: object) -> SafeString:
    """A value with a label that only a card shows: a table has it in its head."""
    return format_html('<span class="idem-label">{}: </span>{}', label, value)


def state_cell(state: int) -> SafeString:
    """The state of a key as a badge."""
    return badge(state_word(state), look_of(state))
