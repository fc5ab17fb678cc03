"""Says in words how far a batch is: its state, its bar, its chunks and its errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from ...identity.text import public_text
from ...models import DEAD, Batch, BatchChunk, BatchState, ChunkState, IdempotencyKey
from ...operations.batch_counts import Numbers, share
from ...operations.batch_errors import Errors
from ..permissions import has
from .badges import badge, look_of_chunk
from .ledger import alias
from .wording import at, category_word, cell, dotted, shown, state_word

#: How many chunks, and how many kinds of error, the page of a batch shows.
CHUNKS, ERRORS = 50, 20

_STATES = {
    BatchState.SUBMITTING: gettext_noop("submitting"),
    BatchState.RUNNING: gettext_noop("running"),
    BatchState.NEEDS_ATTENTION: gettext_noop("needs attention"),
    BatchState.FINISHED: gettext_noop("finished"),
    BatchState.CANCELLED: gettext_noop("cancelled"),
}
_CHUNKS = {
    ChunkState.OPEN: gettext_noop("open"),
    ChunkState.ENDED: gettext_noop("ended"),
    ChunkState.NEEDS_ATTENTION: gettext_noop("needs attention"),
    ChunkState.DISCARDED: gettext_noop("discarded"),
    ChunkState.CANCELLED: gettext_noop("cancelled"),
}
_OUTCOMES = {
    "ok": gettext_noop("ok"),
    "fatal": gettext_noop("fatal"),
    "retryable": gettext_noop("retryable"),
    "manual_review": gettext_noop("manual review"),
    "expected": gettext_noop("expected"),
}
#: Batches in these states go on no further by themselves.
ENDED = (BatchState.FINISHED, BatchState.CANCELLED)


def batch_state_word(state: int) -> str:
    """The word for the state of a batch."""
    return _(_STATES[BatchState(state)])


def chunk_state_word(state: int) -> str:
    """The word for the state of a chunk."""
    return _(_CHUNKS[ChunkState(state)])


def batch_key(request: HttpRequest, row: Batch) -> str:
    """The key of a batch, as far as this person may see it."""
    return shown(row.key_text if has(request, "view_payload") else public_text(row.key_text, row.id))


def batch_bar(row: Batch, numbers: Numbers) -> SafeString:
    """A bar with how many records have an outcome, and how many of these failed."""
    percent = int(share(numbers, sealed=row.sealed_at is not None) * 100)
    words = _("%(settled)s of %(records)s") % {
        "settled": f"{numbers.settled:,}",
        "records": f"{numbers.records:,}",
    }
    if numbers.failed:
        words = _("%(words)s, %(failed)s failed") % {"words": words, "failed": f"{numbers.failed:,}"}
    return format_html(
        '<span class="idem-bar"><progress value="{}" max="100" aria-label="{}">{}%</progress> {}</span>',
        percent,
        _("progress"),
        percent,
        words,
    )


def outcome_lines(numbers: Numbers) -> list[tuple[str, str]]:
    """How many records have each outcome, and how many have none."""
    found = [(_(word), numbers.outcomes[name]) for name, word in _OUTCOMES.items()]
    found.append((_("open: no outcome yet"), numbers.open))
    if numbers.dropped:
        found.append((_("dropped: their chunk was cancelled or discarded"), numbers.dropped))
    return [(name, f"{number:,}") for name, number in found]


def chunk_counts(numbers: Numbers) -> list[dict[str, str]]:
    """How many chunks are in each state, with the query of the page that lists them."""
    return [
        {"name": chunk_state_word(state), "number": f"{number:,}", "query": f"chunks={state.value}"}
        for state, number in numbers.chunks.items()
    ]


@dataclass(frozen=True, slots=True)
class ChunkLine:
    """One chunk; ``url`` leads to its key, or to its dead letter."""

    place: str
    records: str
    state: str
    key_state: str
    url: str
    badge: str


def chunk_lines(request: HttpRequest, row: Batch, *, state: int | None, after: int) -> tuple[list[Any], int]:
    """``CHUNKS`` chunks in their order, and the place after which there are more; 0 where there are none.

    Two statements: the chunks, then the states of their keys.
    """
    chunks = BatchChunk.objects.using(alias()).filter(batch_id=row.id, place__gt=after).order_by("place")
    if state is not None:
        chunks = chunks.filter(state=state)
    found = list(chunks.defer("outcomes")[: CHUNKS + 1])
    page = found[:CHUNKS]
    keys = IdempotencyKey.objects.using(alias()).filter(digest__in=[each.digest for each in page])
    states = dict(keys.values_list("digest", "state"))
    lines = [_chunk_line(request, each, states.get(each.digest)) for each in page]
    return lines, page[-1].place if len(found) > CHUNKS else 0


def _chunk_line(request: HttpRequest, chunk: BatchChunk, state: int | None) -> ChunkLine:
    last = chunk.first + chunk.size - 1
    span = f"{chunk.first:,}" if chunk.size == 1 else f"{chunk.first:,} - {last:,}"
    if chunk.indexes is not None:
        span = _("%(number)s again") % {"number": f"{chunk.size:,}"}
    key_state = _("pruned") if state is None else state_word(state)
    return ChunkLine(
        str(chunk.place),
        span,
        chunk_state_word(chunk.state),
        key_state,
        _url(request, chunk, state),
        badge(chunk_state_word(chunk.state), look_of_chunk(chunk.state)),
    )


def _url(request: HttpRequest, chunk: BatchChunk, state: int | None) -> str:
    """The address of the chunk's key, or dead letter; empty where it is gone or hidden from this person."""
    if state is None:
        return ""
    models = ["deadletter"] if state in DEAD else []
    for model in (*models, "idempotencykey"):
        if has(request, f"view_{model}"):
            return reverse(f"admin:django_idempotent_tasks_{model}_change", args=[chunk.digest])
    return ""


def batch_url(request: HttpRequest, row: IdempotencyKey) -> str:
    """The address of the batch whose chunk has this key; empty without one, or without the permission."""
    if not has(request, "view_batch"):
        return ""
    chunks = BatchChunk.objects.using(alias()).filter(digest=row.digest)
    batch = chunks.values_list("batch_id", flat=True).first()
    return "" if batch is None else reverse("admin:django_idempotent_tasks_batch_change", args=[batch])


@dataclass(frozen=True, slots=True)
class ErrorLine:
    """Records that failed alike, with the message of the last one for who may see it."""

    count: str
    category: str
    error: str
    description: str
    example: str
    when: str


def error_lines(request: HttpRequest, found: list[Errors]) -> list[ErrorLine]:
    """The errors of a batch, the most frequent first."""
    sees = has(request, "view_traceback")
    return [
        ErrorLine(
            f"{each.count:,}",
            category_word(each.category),
            dotted(each.last.error),
            cell(each.last.description) if sees else "",
            f"{each.last.index:,}",
            at(each.last.at),
        )
        for each in found
    ]
