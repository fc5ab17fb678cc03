"""``idem dead-letters export``: prints one JSON document a line, in bounded memory."""

from __future__ import annotations

from ...ledger.stores import LedgerStore
from ...messages.unreadable import Unreadable, parsed
from ...models import DeadLetter
from ..cli.chosen import selection_of
from ..cli.report import Options, Report, Say, to_line
from .list import letter_facts

#: How many dead letters one query reads: each message may be as large as MAX_PAYLOAD.
PAGE = 50


def export(store: LedgerStore, options: Options, say: Say) -> Report:
    """Print each dead letter when it is read; with ``--payload`` also its arguments, as they are stored."""
    for page in selection_of(store, options).pages(store.connection.alias, size=PAGE):
        for row in page:
            say(to_line(letter_facts(row) | (_call(row) if options.get("payload") else {})))
    return Report({}, [], is_silent=True)


def _call(row: DeadLetter) -> dict[str, object]:
    """The stored arguments and options; null where no message is stored."""
    try:
        stored = parsed(row.message or "null")
    except Unreadable:
        stored = None
    call = stored if isinstance(stored, dict) else {}
    return {"args": call.get("args"), "kwargs": call.get("kwargs"), "options": call.get("options")}
