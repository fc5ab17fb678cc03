"""``self.idempotency`` in a plain call, ``charge(7, "9.90")``: the same names without a ledger."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from django.db import transaction

from ..conf import settings
from ..ledger.progress import encode_progress
from ..states import Category
from .context import Done, downstream_key
from .record import Record, Unkept, as_error, category_of
from .steps import run_plain

T = TypeVar("T")


class Detached:
    """The handle of a call that no ledger guards; ``.complete()`` is an ordinary transaction."""

    token = 0
    attempt = 1
    previous_attempt_died = False
    lost = False
    batch = None
    _generation = 1

    def __init__(self, task: Any) -> None:
        request = task.request
        self._task = task.name
        self._identity = task.idempotency_identity(request.args, request.kwargs, task_id=request.id or "")
        self.key = self._identity.key_text
        self.scope = self._identity.scope

    def downstream_key(self, purpose: str) -> str:
        """The key that a guarded first run of the same work would use."""
        return downstream_key(self._identity.digest, self._generation, purpose)

    @contextmanager
    def external(self) -> Iterator[None]:
        """Do nothing: a plain call has no row to mark."""
        yield

    @contextmanager
    def complete(self) -> Iterator[Done]:
        """A transaction on the ledger's database."""
        with transaction.atomic(using=settings().database):
            yield Done()

    def step(
        self, name: str, function: Callable[..., T], /, *args: Any, external: bool = False, **kwargs: Any
    ) -> T:
        """Run the function; nobody comes after this call to whom its value could be given."""
        value: T = run_plain(self._task, name, function, args, kwargs, external=external)
        return value

    def records(self, values: Iterable[Any]) -> Iterator[Record]:
        """All records; the block of each is a transaction, and lets its error out."""
        keeper = Unkept(settings().database)
        return (Record(keeper, place, place, value) for place, value in enumerate(values))

    def record(
        self,
        index: int | Iterable[int],  # noqa: ARG002
        outcome: str | Category,
        error: object = None,
    ) -> None:
        """Raise what a record has failed with; an outcome of a plain call is kept nowhere."""
        category = category_of(outcome)
        if category is not None:
            raise as_error(category, error)

    def progress(self, done: float, total: float | None = None, note: str = "") -> None:
        """Write nothing, but raise for a report that a guarded run would refuse."""
        encode_progress(done, total, note)
