"""Reads from the options which dead letters are meant: one by its digest, or all that fit the filters."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

from django.utils.timezone import is_aware, make_aware

from ...ledger.moments import database_now, of_column, shifted
from ...ledger.stores import LedgerStore
from ...models import DEAD
from ...operations.selection import Selection
from .report import Options, could_not_run


def selection_of(store: LedgerStore, options: Options) -> Selection:
    """The selection that the filters describe; without a filter it is all dead letters."""
    state, category = options.get("state"), options.get("category")
    if state is not None and state not in DEAD:
        raise could_not_run("Dead letters are failed or review: give --state one of these.")
    now = database_now(store)
    return Selection(
        task=options.get("task"),
        scope=options.get("scope"),
        signature=options.get("signature"),
        category=None if category is None else int(category),
        state=None if state is None else int(state),
        ended_after=moment(options.get("since"), now),
        ended_before=moment(options.get("until"), now),
    )


def moment(given: timedelta | datetime | None, now: datetime) -> datetime | None:
    """The time of an option as the ledger's columns store it; without an offset it is in TIME_ZONE."""
    if given is None or isinstance(given, timedelta):
        return None if given is None else shifted(now, -given)
    return of_column(given if is_aware(given) else make_aware(given))


def one_or_many(store: LedgerStore, options: Options) -> UUID | Selection:
    """A digest, or a selection. Raises CommandError without a filter and ``--all``: all must be meant."""
    digest, selection, is_all = options.get("digest"), selection_of(store, options), options.get("all")
    if digest is not None:
        if selection.given() or is_all:
            raise could_not_run("Give one of these: a digest, filters, or --all.")
        return UUID(str(digest))
    if bool(selection.given()) == bool(is_all):
        words = (
            "Give filters or --all, not both." if is_all else "Give a digest, at least one filter, or --all."
        )
        raise could_not_run(words)
    return selection
