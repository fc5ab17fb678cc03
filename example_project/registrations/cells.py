"""Makes cells harmless that a spreadsheet would run as a formula, and gives their texts back."""

from __future__ import annotations

#: What spreadsheets take for the beginning of a formula, or leave out before one; the wide forms as well.
FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
GUARD = "'"


def guarded(text: str) -> str:
    """The text as a cell that is shown and not run; ``unguarded`` gives the text back."""
    return GUARD + text if text.startswith((*FORMULAS, GUARD)) else text


def unguarded(cell: str) -> str:
    """The text that was guarded, or the cell itself."""
    return cell[1:] if cell.startswith(GUARD) and cell[1:].startswith((*FORMULAS, GUARD)) else cell
