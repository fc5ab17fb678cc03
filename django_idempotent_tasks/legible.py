"""What a task or a person wrote, for a log, a terminal or a page."""

from __future__ import annotations


def harmless(text: object) -> str:
    """The text on one line, with what a terminal would act on written as an escape."""
    return "".join(char if char.isprintable() else _escaped(char) for char in str(text))


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode()
