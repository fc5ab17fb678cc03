"""Draws hourly counts as small SVG charts, and sums them for the table beside."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count as Counted
from django.db.models import Q, Sum
from django.utils.translation import gettext as _

from ..models import COUNTED, DEAD, HourlyCount, IdempotencyKey
from ..operations.counts import CAP, Count
from ..states import State
from .words.ledger import alias
from .words.wording import shown

WEEK = 7 * 24
COLUMNS = ("succeeded", "failed", "duplicates", "crashes")
WIDTH, HEIGHT = 336, 72
#: How many tasks the table of the busiest shows.
BUSIEST = 10

Hours = dict[datetime, dict[str, int]]


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar: an hour or several. Coordinates are text, since a localized decimal comma would break SVG."""

    x: str
    y: str
    width: str
    height: str
    title: str


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart; ``summary`` says in words what its bars show."""

    title: str
    css: str
    bars: list[Bar]
    summary: str
    width: str = str(WIDTH)
    height: str = str(HEIGHT)


def hours(now: datetime) -> Hours:
    """The totals of each hour of the last week, by one statement."""
    since = _floor(now) - timedelta(hours=WEEK)
    found: Any = HourlyCount.objects.using(alias()).filter(hour__gte=since).order_by()
    rows = found.values("hour")
    return {row.pop("hour"): row for row in rows.annotate(**{name: Sum(name) for name in COLUMNS})}


def busiest(now: datetime) -> list[dict[str, Any]]:
    """The tasks with the most keys in 24 hours."""
    rows: Any = HourlyCount.objects.using(alias()).filter(hour__gte=_floor(now) - timedelta(hours=24))
    sums = {f"total_{name}": Sum(name) for name in ("created", "succeeded", "failed", "duplicates")}
    found = (
        rows.exclude(task=COUNTED)
        .order_by()
        .values("task")
        .annotate(**sums)
        .order_by("-total_created")[:BUSIEST]
    )
    return [
        {
            name.removeprefix("total_"): shown(value) if name == "task" else f"{value:,}"
            for name, value in row.items()
        }
        for row in found
    ]


def this_hour(now: datetime) -> dict[str, Count]:
    """The totals of the hour that is not over, counted from the newest ``CAP`` keys."""
    keys = IdempotencyKey.objects.using(alias()).filter(created_at__gte=_floor(now)).order_by("-created_at")
    found = keys.values("state", "duplicates", "crashes", "created_at")[: CAP + 1].aggregate(
        number=Counted("state"),
        succeeded=Counted("state", filter=Q(state=State.SUCCEEDED)),
        failed=Counted("state", filter=Q(state__in=DEAD)),
        duplicates=Sum("duplicates", default=0),
        crashes=Sum("crashes", default=0),
    )
    return {kind: Count(found[kind], found["number"] > CAP) for kind in COLUMNS}


def with_this_hour(full: Hours, now: datetime, current: dict[str, Count]) -> Hours:
    """The full hours and the hour that is not over."""
    return full | {_floor(now): {kind: current[kind].number for kind in COLUMNS}}


def totals(counted: Hours, now: datetime, current: dict[str, Count]) -> list[tuple[str, list[str]]]:
    """Each kind in this hour, in the last full hour, and in the 24 hours and 7 days up to now."""
    last = counted.get(_floor(now) - timedelta(hours=1), {})
    found = []
    for kind, name in _names().items():
        spans = [Count(_total(counted, now, kind, span), current[kind].is_bound) for span in (24, WEEK)]
        found.append((name, [str(current[kind]), f"{last.get(kind, 0):,}", *map(str, spans)]))
    return found


def charts(counted: Hours, now: datetime) -> list[Chart]:
    """Each kind over 24 hours and over 7 days; the last bar has the hour that is not over."""
    styles = {"succeeded": "idem-good", "failed": "idem-ill", "duplicates": "idem-odd", "crashes": "idem-ill"}
    return [
        _chart(counted, now, kind, styles[kind], span, step)
        for span, step in ((24, 1), (WEEK, 6))
        for kind in COLUMNS
    ]


def counted_words(counted: Hours, now: datetime) -> str:
    """How fresh the counts are, in words."""
    if not counted:
        return _(
            "The sweeper has counted no full hour yet, so only this hour is shown: it counts an hour when the"
            " hour is over."
        )
    last = max(counted)
    words = _("Counted up to %(last)s; the sweeper counts an hour when it is over, and again an hour later.")
    return words % {"last": f"{last + timedelta(hours=1):%Y-%m-%d %H:%M}"} if last < now else ""


def _names() -> dict[str, str]:
    return {
        "succeeded": _("succeeded"),
        "failed": _("failed"),
        "duplicates": _("duplicates refused"),
        "crashes": _("takeovers: owners that died"),
    }


def _total(counted: Hours, now: datetime, kind: str, span: int) -> int:
    since = _first(now, span)
    return sum(row[kind] for hour, row in counted.items() if hour >= since)


def _chart(counted: Hours, now: datetime, kind: str, css: str, span: int, step: int) -> Chart:
    begin = _first(now, span)
    starts = [begin + timedelta(hours=number) for number in range(0, span, step)]
    values = [
        sum(counted.get(start + timedelta(hours=part), {}).get(kind, 0) for part in range(step))
        for start in starts
    ]
    most = max(values, default=0)
    period = _("24 hours") if span == 24 else _("7 days")  # noqa: PLR2004
    title = _("%(kind)s, %(period)s") % {"kind": _names()[kind].capitalize(), "period": period}
    words = _("%(total)s in all, at most %(most)s in %(step)s h")
    summary = words % {"total": f"{sum(values):,}", "most": f"{most:,}", "step": step}
    bars = [
        _bar(number, len(values), value, most, starts[number]) for number, value in enumerate(values) if value
    ]
    return Chart(title, css, bars, summary)


def _bar(number: int, of: int, value: int, most: int, start: datetime) -> Bar:
    width = WIDTH / of
    height = max(value / most * (HEIGHT - 4), 1)
    title = f"{start:%Y-%m-%d %H:%M}: {value:,}"
    return Bar(
        f"{number * width + 0.5:.1f}", f"{HEIGHT - height:.1f}", f"{width - 1:.1f}", f"{height:.1f}", title
    )


def _first(now: datetime, span: int) -> datetime:
    """The beginning of so many hours that end with the present one."""
    return _floor(now) - timedelta(hours=span - 1)


def _floor(moment: datetime) -> datetime:
    return moment.replace(minute=0, second=0, microsecond=0)
