"""Adds the remedy to a database error where the ledger's tables are missing or may not be read."""

from __future__ import annotations

from django.db import Error

#: PostgreSQL's codes, and MySQL's, of a table that is not there and of a right that was not granted.
_ABSENT, _REFUSED = frozenset({"42P01", 1146}), frozenset({"42501", 1142, 1143})


def remedy(error: BaseException | None, alias: str) -> str:
    """What to do about a table that is not there, or a right that is missing; empty for other errors."""
    code = _code(error)
    if code in _ABSENT or "no such table" in str(error):
        return f"Are the ledger's tables there? Run 'manage.py migrate --database {alias}'."
    if code in _REFUSED:
        return (
            f"The database account of {alias!r} lacks a right: grant it SELECT, INSERT, UPDATE and DELETE on"
            " the ledger's tables, and on PostgreSQL USAGE on their sequences."
        )
    return ""


def note_missing_tables(error: Error, alias: str) -> None:
    """Add the remedy to an error that says that a table is not there, or refused; others are left alone."""
    if said := remedy(error, alias):
        error.add_note(said)


def _code(error: BaseException | None) -> object:
    if error is None:
        return None
    return getattr(error.__cause__, "sqlstate", None) or (error.args[0] if error.args else None)
