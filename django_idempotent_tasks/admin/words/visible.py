"""Hides key values from people without ``view_payload``, and error messages without ``view_traceback``."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest

from ...identity.text import public_text
from ...ledger.encoding import decode_error, error_parts
from ..permissions import has
from .wording import shown


def key_of(request: HttpRequest, row: Any) -> str | None:
    """The key's text; without ``view_payload`` one that is made of arguments as a name and a short digest."""
    if row.key_text is None or row.digest is None or has(request, "view_payload"):
        text: str | None = row.key_text
        return text
    return public_text(row.key_text, row.digest)


def title_of(row: Any, key_text: str | None) -> str:
    """The heading of a key's page: its task's short name, and the key as far as this person may see it."""
    return f"{shown(row.task).rpartition('.')[2]}: {shown(key_text)}"


def error_of(request: HttpRequest, row: Any) -> str:
    """Class and message of a key's recorded error; without ``view_traceback`` the class."""
    if has(request, "view_traceback"):
        return decode_error(row.result)
    return error_parts(row.result)[0] or decode_error(None)


def description_of(request: HttpRequest, text: str) -> str:
    """A failed attempt's message, which may quote arguments; empty without ``view_traceback``."""
    return text if has(request, "view_traceback") else ""
