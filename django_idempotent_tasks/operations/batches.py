"""What people and programs may ask of a batch: submit it, look at it, see what failed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any
from uuid import UUID

from .. import models
from ..ledger.stores import get_store
from ..models import BatchRecord, BatchState
from ..sending.batches import submit
from ..states import Category
from .batch_counts import LETTERS, Numbers, numbers, share
from .batch_decisions import cancel
from .batch_redrives import Redriven, redrive


def submit_batch(
    task: Any,
    records: Iterable[Any],
    *,
    chunk_size: int = 50,
    batch_key: object = None,
    scope: str | None = None,
    callback: Any = None,
    on_attention: Any = None,
    **options: Any,
) -> Batch:
    """Let a guarded task work on many records, ``chunk_size`` (1 to 1,000) of them a call.

    ``records`` are what JSON can hold: a list, a generator or a queryset of ``values()``; one group of about
    1,000 is in memory. ``batch_key`` (with ``scope``) says which upload it is; without it the content does,
    which only a list has. Sent once more, the same upload is the same batch: nothing is done twice, and a
    submission that died goes on. Each group is one transaction, or part of the open one, and its calls are
    sent after the commit.

    The task gets a chunk as the argument ``records``, beside ``options["kwargs"]``; other ``options`` are
    those of ``apply_async``. ``callback`` is a signature of a guarded task, which is called once, with the
    batch's id, when the last chunk has ended; ``on_attention`` once when a chunk needs a person.

    Raises :class:`KeyReused` for other records under the key, :class:`InvalidKey` for a record without a
    canonical form, and :class:`ConfigurationError`; what was reserved before such a record stays, and is gone
    on with when the mended upload is sent.
    """
    batch, has_begun = submit(
        task,
        records,
        chunk_size=chunk_size,
        batch_key=batch_key,
        scope=scope,
        callback=callback,
        on_attention=on_attention,
        options=options,
    )
    return Batch(_row(batch), created=has_begun)


def get_batch(batch: UUID | str) -> Batch:
    """The batch of this id. Raises ``Batch.DoesNotExist`` where there is none, or not any more."""
    return Batch(_row(UUID(str(batch))))


class Batch:
    """A batch as it was read; :meth:`refresh` reads it again. Its numbers are counted when asked for.

    ``created``: this very ``submit_batch`` began it, else an earlier one did.
    """

    DoesNotExist = models.Batch.DoesNotExist

    def __init__(self, row: models.Batch, *, created: bool = False) -> None:
        self.row = row
        self.created = created

    @property
    def id(self) -> UUID:
        """The id, the same for each submission of the upload."""
        return self.row.id

    @property
    def task(self) -> str:
        """The name of the task."""
        return self.row.task

    @property
    def key(self) -> str:
        """The key in its form for people."""
        return self.row.key_text

    @property
    def scope(self) -> str | None:
        """The tenant, or None."""
        return self.row.scope

    @property
    def state(self) -> str:
        """``submitting``, ``running``, ``needs_attention``, ``finished`` or ``cancelled``."""
        return BatchState(self.row.state).name.lower()

    @property
    def sealed(self) -> bool:
        """Whether all chunks are in."""
        return self.row.sealed_at is not None

    @property
    def counts(self) -> dict[str, int]:
        """How many records are ``ok``, ``fatal``, ``retryable``, ``manual_review``, ``open`` and ``dropped``.

        ``open`` have no outcome yet; ``dropped`` will get none, since their chunk was cancelled or discarded.
        """
        return self._numbers.facts()["records"]

    @property
    def chunks(self) -> dict[str, int]:
        """How many chunks are ``open``, ``ended``, ``needs_attention``, ``discarded`` and ``cancelled``."""
        return self._numbers.facts()["chunks"]

    @property
    def progress(self) -> float:
        """From 0 to 1: the part of the submitted records that wait for nothing any more."""
        return share(self._numbers, sealed=self.sealed)

    def errors(self, **lookups: Any) -> Iterator[BatchRecord]:
        """The records that failed, by their index; ``lookups`` are those of a query, such as ``category``.

        ``index`` counts from 0 through the batch; ``value`` is the record's JSON text.
        """
        found = BatchRecord.objects.using(_alias()).filter(batch_id=self.id, **lookups)
        return found.order_by("index").iterator(chunk_size=500)

    def refresh(self) -> Batch:
        """Read it again. Raises ``DoesNotExist`` for a batch that was pruned."""
        self.row = _row(self.id)
        return self

    def cancel(self, reason: str, *, by: str = "code") -> bool:
        """End it: chunks that wait are cancelled after the commit, chunks that run go on to their end.

        A submission that goes on stops, and no callback is sent. ``reason`` and ``by`` (who) are kept and
        logged. False, and nothing changes, where it had ended.
        """
        done = cancel(get_store(), self.row, by=by, reason=reason).done
        self.refresh()
        return done

    def redrive(self, category: str | None = None, *, by: str = "code", reason: str = "") -> Redriven:
        """Run the chunks again that need attention: they go on where they were, under the same keys.

        With a ``category``, such as ``"fatal"``, give the records that ended so, of chunks that have ended,
        to new chunks. A batch that has finished runs again; its callback is not called a second time. What
        comes back says how many run again, and why others do not. Raises ValueError for another category.
        """
        found = redrive(get_store(), self.row, category=_category(category), by=by, reason=reason)
        self.refresh()
        return found

    @property
    def _numbers(self) -> Numbers:
        return numbers(_alias(), [self.id])[self.id]

    def __repr__(self) -> str:
        return f"<Batch {self.id} {self.task} {self.key!r}: {self.state}>"


def _row(batch: UUID) -> models.Batch:
    return models.Batch.objects.using(_alias()).get(pk=batch)


def _alias() -> str:
    alias: str = get_store().connection.alias
    return alias


def _category(name: str | None) -> Category | None:
    if name is None:
        return None
    if name not in LETTERS or name == "ok":
        msg = f"{name!r} is no category: give one of fatal, retryable, manual_review, expected."
        raise ValueError(msg)
    return Category[name.upper()]
