"""A ledger without tables: the database's own error, with what to do about it."""

from __future__ import annotations

from django.db import Error

#: PostgreSQL's and MySQL's codes of a table that is not there.
_SQLSTATE, _ERRNO = "42P01", 1146


def note_missing_tables(error: Error, alias: str) -> None:
    """Add the remedy to an error that says that a table is not there; others are left as they are."""
    state = getattr(error.__cause__, "sqlstate", None)
    if state == _SQLSTATE or error.args[:1] == (_ERRNO,) or "no such table" in str(error):
        error.add_note(f"Are the ledger's tables there? Run 'manage.py migrate --database {alias}'.")
