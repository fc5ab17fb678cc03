"""``idem dead-letters export``: one JSON document a line, in bounded memory."""

from __future__ import annotations

from ...ledger.stores import LedgerStore
from ...messages.unreadable import Unreadable, parsed
from ...models import DeadLetter
from ..cli.chosen import selection_of
from ..cli.report import Options, Report, Say, to_line
from .list import letter_facts

#: Dead letters that one query reads: each call may be as large as MAX_PAYLOAD.
PAGE = 50


def export(store: LedgerStore, options: Options, say: Say) -> Report:
    """Lines while they are read, nothing at the end; the arguments as they are stored, with ``--payload``."""
    for page in selection_of(store, options).pages(store.connection.alias, size=PAGE):
        for row in page:
            say(to_line(letter_facts(row) | (_call(row) if options.get("payload") else {})))
    return Report({}, [], is_silent=True)


def _call(row: DeadLetter) -> dict[str, object]:
    """``args`` and ``kwargs`` are null where nothing of the call is stored."""
    try:
        stored = parsed(row.message or "null")
    except Unreadable:
        stored = None
    call = stored if isinstance(stored, dict) else {}
    return {"args": call.get("args"), "kwargs": call.get("kwargs"), "options": call.get("options")}
