"""Tables for a terminal: text to the left, figures to the right."""

from __future__ import annotations

from collections.abc import Collection, Sequence

GAP = "  "


def render(headers: Sequence[str], rows: Sequence[Sequence[str]], *, texts: Collection[int] = (0,)) -> str:
    """The table as lines of text; ``texts`` are the columns of text, the others are figures."""
    widths = [max(map(len, column)) for column in zip(headers, *rows, strict=True)]
    lines = [headers, ["-" * width for width in widths], *rows]
    return "\n".join(_line(cells, widths, texts) for cells in lines)


def figure(value: float | None, digits: int = 0) -> str:
    """A figure with so many decimals and thousands apart; a dash for none."""
    return "-" if value is None else f"{value:,.{digits}f}"


def goal(value: float | None, sign: str, digits: int = 2) -> str:
    """What is aimed at, such as ``>= 0.85``; nothing where nothing is."""
    return "" if value is None else f"{sign} {value:,.{digits}f}"


def _line(cells: Sequence[str], widths: Sequence[int], texts: Collection[int]) -> str:
    padded = [
        cell.ljust(width) if number in texts else cell.rjust(width)
        for number, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return GAP.join(padded).rstrip()
