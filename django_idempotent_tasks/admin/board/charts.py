"""Draws what was done by minute and by hour as small SVG charts, and sums it for the table beside."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Sum
from django.utils.timezone import localtime
from django.utils.translation import gettext as _

from ...models import HourlyCount
from ...operations.counts import Count
from ...operations.durations import floor
from ..words.ledger import alias
from .recent import COLUMNS, Recent

WEEK = 7 * 24
WIDTH, HEIGHT = 336, 72
#: What a chart stacks, from the ground up, with the style of its bars.
STACKED = (("succeeded", "idem-good"), ("failed", "idem-ill"))

Counted = dict[datetime, dict[str, int]]


@dataclass(frozen=True, slots=True)
class Bar:
    """A part of a bar. Coordinates are text, since a localized decimal comma would break SVG."""

    css: str
    x: str
    y: str
    width: str
    height: str
    title: str


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart from ``first`` to ``last``; ``summary`` says in words what its bars show."""

    title: str
    bars: list[Bar]
    summary: str
    first: str
    last: str
    width: str = str(WIDTH)
    height: str = str(HEIGHT)


def hours(now: datetime) -> Counted:
    """The totals of each hour of the last week, by one statement."""
    since = floor(now) - timedelta(hours=WEEK)
    found: Any = HourlyCount.objects.using(alias()).filter(hour__gte=since).order_by()
    rows = found.values("hour")
    return {row.pop("hour"): row for row in rows.annotate(**{name: Sum(name) for name in COLUMNS})}


def with_this_hour(full: Counted, now: datetime, current: dict[str, Count]) -> Counted:
    """The full hours and the hour that is not over."""
    return full | {floor(now): {kind: current[kind].number for kind in COLUMNS}}


def totals(counted: Counted, now: datetime, current: dict[str, Count]) -> list[tuple[str, list[str]]]:
    """Each kind in this hour, in the last full hour, and in the 24 hours and 7 days up to now."""
    last = counted.get(floor(now) - timedelta(hours=1), {})
    found = []
    for kind, name in _names().items():
        spans = [Count(_total(counted, now, kind, span), current[kind].is_bound) for span in (24, WEEK)]
        found.append((name, [str(current[kind]), f"{last.get(kind, 0):,}", *map(str, spans)]))
    return found


def charts(counted: Counted, now: datetime, seen: Recent) -> list[Chart]:
    """The last hour by minute, a day and a week by hour; the last bar has what is not over."""
    minutes = seen.minutes()
    day, week = _first(now, 24), _first(now, WEEK)
    hourly = [day + timedelta(hours=number) for number in range(24)]
    daily = [week + timedelta(hours=number) for number in range(WEEK)]
    return [
        _chart(_("Last hour, by minute"), minutes, list(minutes), "%H:%M", _("in a minute")),
        _chart(_("24 hours, by hour"), counted, hourly, "%H:%M", _("in an hour")),
        _chart(_("7 days, by hour"), counted, daily, "%a %H:%M", _("in an hour")),
    ]


def counted_words(counted: Counted, now: datetime) -> str:
    """How fresh the counts are, in words."""
    if not counted:
        return _(
            "The sweeper has counted no full hour yet, so only this hour is shown: it counts an hour when the"
            " hour is over."
        )
    last = max(counted)
    words = _("Counted up to %(last)s; the sweeper counts an hour when it is over, and again an hour later.")
    return words % {"last": f"{last + timedelta(hours=1):%Y-%m-%d %H:%M}"} if last < now else ""


def read_words(seen: Recent) -> str:
    """Where only a part of the last hour was read, from when on."""
    if not seen.is_part:
        return ""
    words = _("The chart of the last hour shows the newest %(number)s keys, made since %(since)s.")
    return words % {"number": f"{len(seen.keys):,}", "since": f"{_local(seen.since):%H:%M:%S}"}


def _names() -> dict[str, str]:
    return {
        "succeeded": _("succeeded"),
        "failed": _("failed"),
        "duplicates": _("duplicates refused"),
        "crashes": _("takeovers: owners that died"),
    }


def _total(counted: Counted, now: datetime, kind: str, span: int) -> int:
    since = _first(now, span)
    return sum(row[kind] for hour, row in counted.items() if hour >= since)


def _chart(title: str, counted: Counted, starts: list[datetime], form: str, each: str) -> Chart:
    stacks = [[(css, counted.get(start, {}).get(kind, 0), kind) for kind, css in STACKED] for start in starts]
    sums = {kind: sum(stack[place][1] for stack in stacks) for place, (kind, _css) in enumerate(STACKED)}
    most = max((sum(value for _css, value, _kind in stack) for stack in stacks), default=0)
    words = _("%(good)s succeeded, %(ill)s failed; at most %(most)s %(each)s")
    facts = {"good": f"{sums['succeeded']:,}", "ill": f"{sums['failed']:,}", "most": f"{most:,}"}
    bars = [
        bar
        for number, stack in enumerate(stacks)
        for bar in _stacked(number, len(starts), stack, most, _local(starts[number]).strftime(form))
    ]
    first, last = (_local(starts[place]).strftime(form) for place in (0, -1))
    return Chart(title, bars, words % {**facts, "each": each}, first, last)


def _stacked(number: int, of: int, stack: list[tuple[str, int, str]], most: int, moment: str) -> list[Bar]:
    width, ground, bars = WIDTH / of, float(HEIGHT), []
    gap = 1 if width > 4 else 0.3  # noqa: PLR2004
    for css, value, kind in stack:
        if value:
            height = max(value / most * (HEIGHT - 4), 1)
            ground -= height
            place = (f"{number * width:.1f}", f"{ground:.1f}", f"{width - gap:.1f}", f"{height:.1f}")
            bars.append(Bar(css, *place, f"{moment}: {value:,} {_names()[kind]}"))
    return bars


def _local(moment: datetime) -> datetime:
    return localtime(moment) if moment.tzinfo else moment


def _first(now: datetime, span: int) -> datetime:
    """The beginning of so many hours that end with the present one."""
    return floor(now) - timedelta(hours=span - 1)
