"""Shows states as badges: a word in a colour, so that neither the word nor the colour is needed alone."""

from __future__ import annotations

from django.utils.html import format_html
from django.utils.safestring import SafeString

from ...models import BatchState, ChunkState, OperationState
from ...states import State

#: What the style sheet has a colour for.
QUIET, WAITS, RUNS, GOOD, ODD, BAD = "quiet", "waits", "runs", "good", "odd", "bad"

_STATES = {
    State.PENDING: WAITS,
    State.RUNNING: RUNS,
    State.RETRY: ODD,
    State.REVIEW: BAD,
    State.FAILED: BAD,
    State.CANCELLED: QUIET,
    State.SUCCEEDED: GOOD,
}
_BATCHES = {
    BatchState.SUBMITTING: WAITS,
    BatchState.RUNNING: RUNS,
    BatchState.NEEDS_ATTENTION: BAD,
    BatchState.FINISHED: GOOD,
    BatchState.CANCELLED: QUIET,
}
_CHUNKS = {
    ChunkState.OPEN: RUNS,
    ChunkState.ENDED: GOOD,
    ChunkState.NEEDS_ATTENTION: BAD,
    ChunkState.DISCARDED: QUIET,
    ChunkState.CANCELLED: QUIET,
}
_OPERATIONS = {
    OperationState.RUNNING: RUNS,
    OperationState.DONE: GOOD,
    OperationState.STOPPED: QUIET,
}


def badge(word: str, look: str) -> SafeString:
    """A word in one of the looks above."""
    return format_html('<span class="idem-badge idem-is-{}">{}</span>', look, word)


def look_of(state: int) -> str:
    """The look of a key's state."""
    return _STATES[State(state)]


def look_of_batch(state: int) -> str:
    """The look of a batch's state."""
    return _BATCHES[BatchState(state)]


def look_of_chunk(state: int) -> str:
    """The look of a chunk's state."""
    return _CHUNKS[ChunkState(state)]


def look_of_operation(state: int) -> str:
    """The look of a redrive's state."""
    return _OPERATIONS[OperationState(state)]
