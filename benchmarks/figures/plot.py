"""A bar chart as SVG text: a bar a figure, its spread as a line over it, its goal as a mark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from xml.sax.saxutils import escape

WIDTH, LABELS, RIGHT = 820, 300, 60
ROW, BAR, TOP, BOTTOM = 26, 14, 52, 52
FONT = 'role="img" font-family="system-ui, sans-serif" font-size="13"'
#: Readable on a light and on a dark page.
TEXT, BASE, BARS, SPREAD, GOAL = "#64748b", "#94a3b8", "#93c5fd", "#475569", "#f97316"


@dataclass(frozen=True)
class Bar:
    """One figure: ``value`` with its extremes, and what is aimed at."""

    label: str
    value: float
    lowest: float
    highest: float
    goal: float | None = None


def draw(title: str, notes: Sequence[str], bars: Sequence[Bar]) -> str:
    """The picture; 1 is where a bar is as long as what it is compared with."""
    limit = ceil(max([1.0, *(bar.highest for bar in bars), *(bar.goal or 0.0 for bar in bars)]) * 2) / 2
    height = TOP + ROW * len(bars) + BOTTOM
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" {FONT}>',
        f"<title>{escape(title)}</title>",
        f'<text x="12" y="24" font-size="15" font-weight="600" fill="{TEXT}">{escape(title)}</text>',
        *_axis(limit, height),
    ]
    for number, bar in enumerate(bars):
        lines.extend(_bar(bar, TOP + ROW * number, limit))
    for number, note in enumerate(reversed(notes)):
        lines.append(
            f'<text x="12" y="{height - 10 - 15 * number}" font-size="11" fill="{TEXT}">{escape(note)}</text>'
        )
    return "\n".join([*lines, "</svg>", ""])


def _axis(limit: float, height: int) -> Iterator[str]:
    for half in range(int(limit * 2) + 1):
        value = half / 2
        x, width = _x(value, limit), 1.5 if value == 1 else 0.5
        yield (
            f'<line x1="{x}" y1="{TOP - 8}" x2="{x}" y2="{height - BOTTOM}"'
            f' stroke="{BASE}" stroke-width="{width}"/>'
        )
        yield f'<text x="{x}" y="{TOP - 12}" text-anchor="middle" fill="{TEXT}">{value:g}</text>'


def _bar(bar: Bar, top: int, limit: float) -> Iterator[str]:
    middle = top + ROW / 2
    start, end = _x(0, limit), _x(bar.value, limit)
    yield (
        f'<text x="{LABELS - 8}" y="{middle + 4}" text-anchor="end" fill="{TEXT}">{escape(bar.label)}</text>'
    )
    yield (
        f'<rect x="{start}" y="{middle - BAR / 2}" width="{round(end - start, 1)}" height="{BAR}"'
        f' fill="{BARS}"/>'
    )
    yield (
        f'<line x1="{_x(bar.lowest, limit)}" y1="{middle}" x2="{_x(bar.highest, limit)}" y2="{middle}"'
        f' stroke="{SPREAD}" stroke-width="1.5"/>'
    )
    if bar.goal is not None:
        x = _x(bar.goal, limit)
        yield (
            f'<line x1="{x}" y1="{top + 2}" x2="{x}" y2="{top + ROW - 2}"'
            f' stroke="{GOAL}" stroke-width="2.5"/>'
        )
    yield f'<text x="{WIDTH - RIGHT + 12}" y="{middle + 4}" fill="{TEXT}">{bar.value:.2f}</text>'


def _x(value: float, limit: float) -> float:
    return round(LABELS + (WIDTH - LABELS - RIGHT) * value / limit, 1)
