"""One record of a chunk, as a body sees it, and the outcomes that a body may give to it by hand."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType
from typing import Any, Self

from celery.exceptions import Ignore, Reject, Retry, SoftTimeLimitExceeded
from django.db import transaction

from ..errors.raised import is_a, is_shutdown
from ..exceptions import (
    ConfigurationError,
    LeaseLost,
    ManualReview,
    OuterTransaction,
    PermanentError,
    TransientError,
)
from ..states import Category

#: What ends an attempt when it is raised in the block of a record: it says nothing of the record.
_OF_THE_ATTEMPT = (
    LeaseLost,
    OuterTransaction,
    ConfigurationError,
    Retry,
    Ignore,
    Reject,
    SoftTimeLimitExceeded,
)

_BY_HAND: dict[Category, type[Exception]] = {
    Category.FATAL: PermanentError,
    Category.RETRYABLE: TransientError,
    Category.MANUAL_REVIEW: ManualReview,
    Category.EXPECTED: PermanentError,
}
_NAMES = {category.name.lower(): category for category in Category}
DONE = "ok"


def category_of(outcome: object) -> Category | None:
    """The category that an outcome names, None for ``"ok"``. Raises ValueError for any other value."""
    if isinstance(outcome, Category) or outcome == DONE:
        return None if outcome == DONE else Category(outcome)  # type: ignore[arg-type]
    if isinstance(outcome, str) and outcome in _NAMES:
        return _NAMES[outcome]
    msg = f"An outcome is {', '.join(map(repr, (DONE, *_NAMES)))} or a Category, not {ascii(outcome)[:60]}."
    raise ValueError(msg)


def as_error(category: Category, reason: object) -> BaseException:
    """The error that stands for a reason given by hand, or the error that was given."""
    if isinstance(reason, BaseException):
        return reason
    return _BY_HAND[category]("" if reason is None else str(reason))


def ends_the_attempt(error: BaseException) -> bool:
    """Whether an error in a record's block is none of the record: the attempt is to end by it."""
    return not is_a(error, Exception) or is_shutdown(error) or is_a(error, *_OF_THE_ATTEMPT)


class Keeper(ABC):
    """Who runs the blocks of records and keeps their outcomes."""

    @abstractmethod
    def one(self, record: Record) -> AbstractContextManager[None]:
        """The block of a record."""

    @abstractmethod
    def reject(self, record: Record) -> None:
        """Keep the outcome that was given by hand, or raise it inside the record's block."""


class Unkept(Keeper):
    """Runs the blocks of a plain call: a transaction each, and nothing is kept."""

    def __init__(self, alias: str) -> None:
        self._alias = alias

    def one(self, record: Record) -> AbstractContextManager[None]:
        return _block(record, self._alias)

    def reject(self, record: Record) -> None:
        """Raise what stands for the reason."""
        if record.decided is not None:
            raise record.decided[1]


@contextmanager
def _block(record: Record, alias: str) -> Iterator[None]:
    with transaction.atomic(using=alias):
        yield
        if record.decided is not None:
            raise record.decided[1]


class Record:
    """One record. ``with record:`` is the transaction of the writes for it, and of its outcome.

    ``value`` is the record as it was submitted, ``index`` its place in the batch, from 0 on. An error in
    the block rolls back what was written there, becomes the record's outcome by the task's rules, and is
    not raised any further.
    """

    __slots__ = ("_block", "_keeper", "decided", "index", "place", "value")

    def __init__(self, keeper: Keeper, place: int, index: int, value: Any) -> None:
        self._keeper = keeper
        self._block: AbstractContextManager[None] | None = None
        #: Its place in the chunk.
        self.place = place
        self.index = index
        self.value = value
        #: The category that the body has given by hand, and the error that stands for its reason.
        self.decided: tuple[Category, BaseException] | None = None

    def reject(self, category: str | Category, reason: object = "") -> None:
        """Give the record an outcome by hand: one of the categories of failures.

        ``category`` is ``"fatal"``, ``"retryable"``, ``"manual_review"`` or ``"expected"``, or a Category;
        ``reason`` is a text or an error. Inside the record's block this leaves the block, whose writes are
        rolled back. Raises ValueError for another category.
        """
        named = category_of(category)
        if named is None:
            msg = "reject() gives an outcome of failure; a record whose block ends is ok."
            raise ValueError(msg)
        self.decided = named, as_error(named, reason)
        self._keeper.reject(self)

    def __enter__(self) -> Self:
        block = self._keeper.one(self)
        block.__enter__()
        self._block = block
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        block, self._block = self._block, None
        return block is not None and bool(block.__exit__(kind, error, trace))

    def __repr__(self) -> str:
        return f"<record {self.index}>"
