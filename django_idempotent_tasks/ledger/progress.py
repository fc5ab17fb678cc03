"""Encodes a call of ``.progress()`` as the text beside its key, reads that text, and shows it in a line."""

from __future__ import annotations

import json
from operator import index

from ..messages.unreadable import Unreadable, parsed

#: Characters of the stored text, and of a note in it.
LIMIT, NOTE_LIMIT = 400, 200
#: What JavaScript counts to, exactly.
LARGEST = 2**53 - 1


def encode_progress(done: object, total: object, note: object) -> str:
    """The JSON text of a report, at most 400 characters. Raises ValueError for a wrong number."""
    facts = {"done": _number("done", done), "total": None if total is None else _number("total", total)}
    kept = "" if note is None else _clean(str(note))
    while len(text := json.dumps({**facts, "note": kept}, ensure_ascii=False)) > LIMIT:
        kept = _cut(kept, len(kept) - (len(text) - LIMIT))  # quotes and backslashes are two characters
    return text


def decode_progress(text: str | None) -> dict[str, object] | None:
    """``{"done", "total", "note"}`` of a stored report; None without one, or for a text of another writer."""
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
    """Whether the value is a number as :func:`encode_progress` writes it."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= LARGEST


def progress_words(progress: dict[str, object]) -> str:
    """A report in a line: ``3 of 5 (60%): reading``."""
    share = share_of(progress)
    words = f"{progress['done']}"
    if progress["total"] is not None:
        words += f" of {progress['total']}" + ("" if share is None else f" ({int(share * 100)}%)")
    return f"{words}: {progress['note']}" if progress["note"] else words


def share_of(progress: dict[str, object]) -> float | None:
    """The share that is done, from 0 to 1; None without a total, or where the total is 0."""
    done, total = progress["done"], progress["total"]
    if not isinstance(done, int | float) or not isinstance(total, int | float) or total <= 0:
        return None
    return min(done / total, 1.0)


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
    """The number in a value of whatever library; raises TypeError for a text or a truth value."""
    if isinstance(value, bool | str | bytes):
        raise TypeError
    return index(value) if hasattr(value, "__index__") else float(value)  # type: ignore[arg-type]  # TypeError


def _clean(note: str) -> str:
    """The note on one line, of characters that every database stores."""
    spaced = "".join(" " if ord(char) < 32 or 127 <= ord(char) < 160 else char for char in note[:LIMIT])  # noqa: PLR2004  control characters
    return _cut(spaced.encode(errors="replace").decode().strip(), NOTE_LIMIT)


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: max(length - 1, 0)].rstrip()}…"
