"""How far a body is: its newest word, kept until it is written beside the key, and as people read it."""

from __future__ import annotations

import json
import logging
import time
from operator import index
from threading import Lock
from typing import TYPE_CHECKING

from django.db import Error as DatabaseError
from django.db import transaction

from ..ledger.values import Claim
from ..messages.unreadable import Unreadable, parsed

if TYPE_CHECKING:
    from ..ledger.stores import LedgerStore

logger = logging.getLogger("django_idempotent_tasks")

#: Characters of the stored text, and of a note in it.
LIMIT, NOTE_LIMIT = 400, 200
#: What JavaScript counts to, exactly.
LARGEST = 2**53 - 1
#: Seconds between two writes of an attempt, and after one that the database did not take.
PACE, PATIENCE = 1.0, 5.0


def encode_progress(done: object, total: object, note: object) -> str:
    """The JSON text of a report, at most 400 characters. ValueError for a number that is none."""
    facts = {"done": _number("done", done), "total": None if total is None else _number("total", total)}
    kept = "" if note is None else _clean(str(note))
    while len(text := json.dumps({**facts, "note": kept}, ensure_ascii=False)) > LIMIT:
        kept = _cut(kept, len(kept) - (len(text) - LIMIT))  # quotes and backslashes are two characters
    return text


def decode_progress(text: str | None) -> dict[str, object] | None:
    """``{"done", "total", "note"}`` of a stored report; None without one, or where it is none of ours."""
    try:
        found = parsed(text or "null")
    except Unreadable:
        return None
    if not isinstance(found, dict) or found.keys() != {"done", "total", "note"}:
        return None
    numbers = [found["done"]] if found["total"] is None else [found["done"], found["total"]]
    is_ours = all(map(_is_number, numbers)) and isinstance(found["note"], str)
    return {name: found[name] for name in ("done", "total", "note")} if is_ours else None


def _is_number(value: object) -> bool:
    """Whether it is one that :func:`encode_progress` writes."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= LARGEST


def progress_words(progress: dict[str, object]) -> str:
    """A report in a line: ``3 of 5 (60%): reading``."""
    share = share_of(progress)
    words = f"{progress['done']}"
    if progress["total"] is not None:
        words += f" of {progress['total']}" + ("" if share is None else f" ({int(share * 100)}%)")
    return f"{words}: {progress['note']}" if progress["note"] else words


def share_of(progress: dict[str, object]) -> float | None:
    """From 0 to 1; None where there is no total, or nothing to do."""
    done, total = progress["done"], progress["total"]
    if not isinstance(done, int | float) or not isinstance(total, int | float) or total <= 0:
        return None
    return min(done / total, 1.0)


class Progress:
    """What one attempt says of itself. Said by the body, written by whoever comes to it; never raises."""

    def __init__(self) -> None:
        self._said: list[str] = []  # told apart by identity: the same words may be said twice
        self._written = self._said
        self._free = Lock()
        self._earliest = 0.0

    def say(self, text: str) -> None:
        """The newest word; an older one that is not written yet is forgotten."""
        self._said = [text]

    @property
    def due(self) -> float | None:
        """From when on (monotonic) there is something to write; None when there is nothing."""
        return None if self._said is self._written else self._earliest

    def put_off(self) -> None:
        """The database is away."""
        self._earliest = time.monotonic() + PATIENCE

    def write(self, store: LedgerStore, claim: Claim, *, wait: float = 0.0) -> bool:
        """Write the newest word; False where ``claim`` has lost its key, or somebody has locked its row.

        Another thread that writes is waited for: an older word must not come after a newer one.
        """
        self._earliest = time.monotonic() + PACE
        if not self._free.acquire(timeout=wait):
            return True
        try:
            said = self._said
            if said is not self._written and not store.progress(claim, text=said[0]):
                return False
            self._written = said
            return True
        finally:
            self._free.release()

    def finish(self, store: LedgerStore, claim: Claim) -> None:
        """Write, before the claim is settled, what the last second left over; a courtesy, so no error."""
        if self.due is None:
            return
        try:
            if not store.connection.in_atomic_block:
                self.write(store, claim, wait=PACE)
                return
            with transaction.atomic(using=store.connection.alias):
                self.write(store, claim, wait=PACE)
        except DatabaseError as error:
            logger.debug("The last progress of %s was not written: %r", claim.call.task, error)


def _number(name: str, value: object) -> int | float:
    try:
        number = _plain(value)
    except (ValueError, TypeError, OverflowError):
        number = -1
    if not 0 <= number <= LARGEST:  # nor is NaN
        unknown = " Leave total out where it is not known." if name == "total" else ""
        raise ValueError(
            f"progress(): {name} must be a number from 0 to 2**53 - 1, not {value!r:.100}.{unknown}"
        )
    return number


def _plain(value: object) -> int | float:
    """The number that a value of whatever library stands for; a text or a truth value is none."""
    if isinstance(value, bool | str | bytes):
        raise TypeError
    return index(value) if hasattr(value, "__index__") else float(value)  # type: ignore[arg-type]  # TypeError


def _clean(note: str) -> str:
    """On one line, of characters that every database stores."""
    spaced = "".join(" " if ord(char) < 32 or 127 <= ord(char) < 160 else char for char in note[:LIMIT])  # noqa: PLR2004  control characters
    return _cut(spaced.encode(errors="replace").decode().strip(), NOTE_LIMIT)


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: max(length - 1, 0)].rstrip()}…"
