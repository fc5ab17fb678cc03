"""Progress reports: keeps the newest until it is written beside the key, and formats it for people."""

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
#: The largest integer that JavaScript holds exactly.
LARGEST = 2**53 - 1
#: Seconds between two writes of an attempt, and after a write that the database did not take.
PACE, PATIENCE = 1.0, 5.0


def encode_progress(done: object, total: object, note: object) -> str:
    """The JSON text of a report, at most 400 characters. Raises ValueError for anything but a number."""
    facts = {"done": _number("done", done), "total": None if total is None else _number("total", total)}
    kept = "" if note is None else _clean(str(note))
    while len(text := json.dumps({**facts, "note": kept}, ensure_ascii=False)) > LIMIT:
        kept = _cut(kept, len(kept) - (len(text) - LIMIT))  # quotes and backslashes are two characters
    return text


def decode_progress(text: str | None) -> dict[str, object] | None:
    """``{"done", "total", "note"}`` of a stored report; None without one, or for a text that is not ours."""
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
    """Whether :func:`encode_progress` writes such a value as a number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= LARGEST


def progress_words(progress: dict[str, object]) -> str:
    """A report on one line: ``3 of 5 (60%): reading``."""
    share = share_of(progress)
    words = f"{progress['done']}"
    if progress["total"] is not None:
        words += f" of {progress['total']}" + ("" if share is None else f" ({int(share * 100)}%)")
    return f"{words}: {progress['note']}" if progress["note"] else words


def share_of(progress: dict[str, object]) -> float | None:
    """The share that is done, from 0 to 1; None without a total, or with a total of 0."""
    done, total = progress["done"], progress["total"]
    if not isinstance(done, int | float) or not isinstance(total, int | float) or total <= 0:
        return None
    return min(done / total, 1.0)


class Progress:
    """The newest report of one attempt: the body sets it, the heartbeat or the body's thread writes it."""

    def __init__(self) -> None:
        self._newest: list[str] = []  # compared by identity: two reports may have the same text
        self._written = self._newest
        self._free = Lock()
        self._earliest = 0.0

    def report(self, text: str) -> None:
        """Keep the newest report; an older one that is not written yet is forgotten."""
        self._newest = [text]

    @property
    def due(self) -> float | None:
        """When the newest report may be written (monotonic); None when there is none to write."""
        return None if self._newest is self._written else self._earliest

    def put_off(self) -> None:
        """Wait longer until the next write, since the database is away."""
        self._earliest = time.monotonic() + PATIENCE

    def write(self, store: LedgerStore, claim: Claim, *, wait: float = 0.0) -> bool:
        """Write the newest report; False where ``claim`` has lost its key, or another has locked its row.

        Waits for another thread that writes: an older report must not overwrite a newer one.
        """
        self._earliest = time.monotonic() + PACE
        if not self._free.acquire(timeout=wait):
            return True
        try:
            newest = self._newest
            if newest is not self._written and not store.progress(claim, text=newest[0]):
                return False
            self._written = newest
            return True
        finally:
            self._free.release()

    def finish(self, store: LedgerStore, claim: Claim) -> None:
        """Write the last report before the claim is settled; a database error is only logged."""
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
    """The number that any library's value stands for. TypeError for a text or a truth value."""
    if isinstance(value, bool | str | bytes):
        raise TypeError
    return index(value) if hasattr(value, "__index__") else float(value)  # type: ignore[arg-type]  # TypeError


def _clean(note: str) -> str:
    """The note on one line, in characters that every database stores."""
    spaced = "".join(" " if ord(char) < 32 or 127 <= ord(char) < 160 else char for char in note[:LIMIT])  # noqa: PLR2004  control characters
    return _cut(spaced.encode(errors="replace").decode().strip(), NOTE_LIMIT)


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: max(length - 1, 0)].rstrip()}…"
