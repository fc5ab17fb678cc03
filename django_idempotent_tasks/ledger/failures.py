"""Makes the record of a failure: what was raised, where, and a signature to group failures of one kind."""

from __future__ import annotations

import socket
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import replace
from hashlib import sha256
from types import TracebackType

from ..errors.raised import (
    cause_of,
    class_of,
    context_of,
    guarded,
    hides_context,
    members_of,
    module_of_code,
    notes_of,
    trace_of,
)
from ..identity.text import HIDDEN
from ..states import EXPECTED_FROM, Category
from .encoding import describe
from .values import Failure

#: Characters that are kept of a traceback's head, and of its tail, where the error is.
HEAD, TAIL = 16 * 1024, 48 * 1024
CUT = "\n    ... cut here ...\n"

#: Longest class name that the ledger can hold.
NAME_LIMIT = 255

#: How many are written: frames of one error, errors of one chain, notes or members of one error.
FRAMES, CHAIN, PARTS = 100, 20, 15

_HERE = socket.gethostname()


def failure_of(error: BaseException, *, task: str, category: Category, worker: str | None = None) -> Failure:
    """The record of an error. Raises only a stop of the worker, whatever the error's own methods do."""
    name = named(error)
    signature = signature_of(task, name, _place(trace_of(error)))
    if category is Category.EXPECTED:
        signature = f"{EXPECTED_FROM}{signature[:-1]}"
    return Failure(
        error=name,
        description=storable_text(describe(error)),
        traceback=traceback_of(error),
        signature=signature,
        category=category,
        worker=storable_text(worker or _HERE)[:NAME_LIMIT],
    )


def masked(failure: Failure, texts: Iterable[str]) -> Failure:
    """The failure without those texts in its message and its traceback."""
    description, traceback = failure.description, failure.traceback
    for text in texts:
        description, traceback = description.replace(text, HIDDEN), traceback.replace(text, HIDDEN)
    return replace(failure, description=description, traceback=traceback)


def signature_of(task: str, error: str, place: str) -> str:
    """The same 16 hexadecimal characters for the same error of the same task at the same place.

    The message does not count: it has ids and times in it.
    """
    return sha256(f"{task}\n{error}\n{place}".encode("utf-8", "replace")).hexdigest()[:16]


def storable_text(text: str) -> str:
    """Text that every database takes: no NUL (PostgreSQL refuses it), no lone surrogates."""
    return text.replace("\x00", "\\x00").encode("utf-8", "replace").decode()


def traceback_of(error: BaseException) -> str:
    """The error and the errors before it, as Python writes them, bounded."""
    # A source file may be unreadable, and a loader of the project's may fail.
    return storable_text(_bounded(guarded(lambda: "".join(reversed([*_chain(error)])), "")))


def _chain(error: BaseException) -> Iterator[str]:
    """The text of each error of the chain, the last error first."""
    link: BaseException | None = error
    words = ""
    for _ in range(CHAIN):
        if link is None:
            return
        yield "".join(_without_chain(link)) + words
        link, words = _previous(link)
    yield f"... and what came before ...{words}"


def _without_chain(error: BaseException) -> Iterator[str]:
    """One error without its chain: Python's own formatting would walk the whole chain in any case."""
    trace = trace_of(error)
    if trace is not None:
        yield "Traceback (most recent call last):\n"
        frames = traceback.walk_tb(trace)
        yield from traceback.StackSummary.extract(frames, limit=-FRAMES).format()
    yield _line(error)
    yield from (f"{note}\n" for note in notes_of(error, most=PARTS, length=HEAD // PARTS))
    yield from (f"  + {_line(member)}" for member in members_of(error, most=PARTS))


def _line(error: BaseException) -> str:
    text = describe(error)
    name = named(error)
    return f"{name}: {text}\n" if text else f"{name}\n"


def named(error: BaseException) -> str:
    """The class of an error, with its module."""
    return storable_text(class_of(error))[:NAME_LIMIT]


def _previous(error: BaseException) -> tuple[BaseException | None, str]:
    """The error before this one in its chain, and Python's words between the two."""
    cause, context = cause_of(error), context_of(error)
    if cause is not None:
        return cause, "\nThe above exception was the direct cause of the following exception:\n\n"
    if context is not None and not hides_context(error):
        return context, "\nDuring handling of the above exception, another exception occurred:\n\n"
    return None, ""


def _bounded(text: str) -> str:
    if len(text) <= HEAD + TAIL:
        return text
    return text[:HEAD] + CUT + text[-TAIL:]


def _place(trace: TracebackType | None) -> str:
    """Module and function of the innermost frame: lines move with every release, these do not."""
    if trace is None:
        return ""
    while trace.tb_next is not None:
        trace = trace.tb_next
    return f"{module_of_code(trace)}:{trace.tb_frame.f_code.co_qualname}"
