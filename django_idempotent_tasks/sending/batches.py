"""Submits a batch: cuts records into chunks, and reserves a call for each chunk that is not there yet.

A group of chunks is one transaction, with the batch's row locked. So several senders of the same upload, or
one after another that has died, reserve each chunk once. In memory are the records of one group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any
from uuid import UUID

from celery.local import Proxy
from celery.utils import uuid
from django.db import transaction

from ..conf import settings
from ..conf.options import Policy
from ..exceptions import ConfigurationError, KeyReused
from ..ledger import batches
from ..ledger.batch_keys import batch_id, chunk_digest, chunk_key
from ..ledger.batch_values import BatchEntry, NewBatch, NewChunk
from ..ledger.stores import commits, get_store
from ..ledger.values import Call
from ..messages.message import Message
from ..models import BatchState
from .alike import Through
from .callbacks import prepared_callback
from .here import is_followed, run_here, runs_here
from .many import Many, reserve_many
from .pieces import Piece, cut, grouped, named_by, reading

#: The records of the largest chunk.
LARGEST_CHUNK = 1000
#: Rows that one transaction deletes of a batch of the same key that is past its time.
BITE = 1000

_OF_A_CHUNK = ("args", "task_id", "idempotency_key")


def submit(
    task: Any,
    records: Iterable[Any],
    *,
    chunk_size: int,
    batch_key: object,
    scope: str | None,
    callback: Any,
    on_attention: Any,
    options: Mapping[str, Any],
) -> tuple[UUID, bool]:
    """What ``submit_batch`` does; the id of the batch, and whether this call has begun it."""
    task = task._get_current_object() if isinstance(task, Proxy) else task  # noqa: SLF001
    policy, through = _reserving(task)
    _check(task, policy, records, chunk_size, options)
    kwargs = dict(options.get("kwargs") or {})
    scope = _scope_of(task, policy, scope, kwargs)
    key, text = named_by(task, records, batch_key, kwargs)
    batch = batch_id(task.name, key, scope=scope)
    kept = {name: value for name, value in options.items() if name != "kwargs"}
    new = NewBatch(
        batch,
        task.name,
        scope,
        text,
        chunk_size,
        prepared_callback(callback, batch, "callback", app=task.app, scope=scope),
        prepared_callback(on_attention, batch, "on_attention", app=task.app, scope=scope),
        Message.of(task.name, (), kwargs, kept).encode(limit=settings().max_payload),
    )
    submitter = _Submitter(task, policy, through, new, kwargs, kept)
    submitter.submit(records)
    return batch, submitter.has_begun


class _AnotherWasFaster(Exception):
    """Another sender has begun the batch."""


class _Submitter:
    """One sending of a batch."""

    def __init__(
        self,
        task: Any,
        policy: Policy,
        through: Through,
        new: NewBatch,
        kwargs: Mapping[str, Any],
        options: Mapping[str, Any],
    ) -> None:
        self.task, self.policy, self.through = task, policy, through
        self.new, self.kwargs, self.options = new, kwargs, options
        self.store = get_store()
        self.alias = self.store.connection.alias
        self.is_eager = bool(task.app.conf.task_always_eager)
        self.has_begun = False
        self.records = self.chunks = 0
        #: The first error of what was run here in eager mode.
        self._error: Exception | None = None

    def submit(self, records: Iterable[Any]) -> None:
        """Reserve what is not there yet, group by group; nothing more once somebody cancels the batch."""
        entry = self._entry()
        size = self.new.chunk_size if entry is None else entry.chunk_size
        with reading(records) as source:
            for group in grouped(cut(source, size, self.kwargs)):
                self.records += sum(len(piece.records) for piece in group)
                self.chunks += len(group)
                if entry is not None and entry.is_sealed:
                    self._missing(group, is_sealed=True)
                elif not self._take(group, size):
                    return
        if entry is not None and entry.is_sealed:
            self._check_count(entry)
        else:
            self._seal()
        if self._error is not None:
            raise self._error

    def _entry(self) -> BatchEntry | None:
        """The batch as it is; one that is past its time is pruned."""
        while True:
            with transaction.atomic(using=self.alias):
                entry = self.store.lock_batch(self.new.id)
            if entry is None or not entry.is_past:
                return entry
            self.store.prune_batch(self.new.id, bite=BITE)  # or the sweeper does, and this waits for it

    def _take(self, group: list[Piece], size: int) -> bool:
        """Reserve the chunks of a group that are not there yet; False for a batch that was cancelled."""
        while True:
            with suppress(_AnotherWasFaster):
                return self._try_to_take(group, size)

    def _try_to_take(self, group: list[Piece], size: int) -> bool:
        with transaction.atomic(using=self.alias):
            entry = self.store.lock_batch(self.new.id) or self._begin()
            if entry.state is BatchState.CANCELLED:
                return False
            if entry.chunk_size != size:
                raise self._cut_otherwise(entry.chunk_size)
            missing = self._missing(group, is_sealed=entry.is_sealed)
            many, digests = self._reserve(missing)
        self._run(many, digests)
        return True

    def _begin(self) -> BatchEntry:
        """Add the batch, which the open transaction has to itself then.

        Where another sender was faster, this transaction ends and begins anew: on MariaDB and MySQL a refused
        INSERT has locked the row as readers do, and two such that both want to write would deadlock.
        """
        self.has_begun = self.store.add_batch(self.new)
        entry = self.store.lock_batch(self.new.id) if self.has_begun else None
        if entry is None:
            raise _AnotherWasFaster
        return entry

    def _missing(self, group: list[Piece], *, is_sealed: bool) -> list[Piece]:
        """The pieces that are no chunks yet. Raises KeyReused where a chunk has other records."""
        there = self.store.chunks_at(self.new.id, [piece.place for piece in group])
        missing = [piece for piece in group if piece.place not in there]
        for piece in group:
            if there.get(piece.place, piece.fingerprint) != piece.fingerprint:
                raise self._reused(f"{piece.shown} differ from those that were sent.")
        if missing and is_sealed:
            raise self._reused(f"{missing[0].shown} were not among those that were sent.")
        return missing

    def _reserve(self, pieces: list[Piece]) -> tuple[Many, list[UUID]]:
        ids = [uuid() for _ in pieces]
        calls = (
            {
                "kwargs": {**self.kwargs, "records": piece.records},
                "idempotency_key": chunk_key(self.new.id, piece.place),
                "task_id": task_id,
            }
            for piece, task_id in zip(pieces, ids, strict=True)
        )
        scope = self.new.scope
        try:
            many = reserve_many(self.task, self.policy, calls, {**self.options, "scope": scope}, self.through)
        except Exception as error:
            error.add_note(f"in the chunks from {pieces[0].shown} on" if pieces else "in submit_batch")
            raise
        chunks = []
        for piece, task_id in zip(pieces, ids, strict=True):
            digest = chunk_digest(self.task.name, self.new.id, piece.place, scope=scope)
            size = len(piece.records)
            chunks.append(NewChunk(piece.place, digest, task_id, piece.first, size, piece.fingerprint))
        self.store.add_chunks(self.new.id, chunks)
        return many, [chunk.digest for chunk in chunks]

    def _seal(self) -> None:
        with transaction.atomic(using=self.alias):
            self.store.seal_batch(self.new.id, records=self.records, chunks=self.chunks)
            entry = self.store.lock_batch(self.new.id)
        if entry is None or entry.state is BatchState.CANCELLED:
            return
        self._check_count(entry)
        self._send_later(batches.settle(self.store, self.new.id))

    def _check_count(self, entry: BatchEntry) -> None:
        if entry.is_sealed and entry.state is not BatchState.CANCELLED and entry.records != self.records:
            raise self._reused(f"it has {entry.records} records, and now there are {self.records}.")

    def _reused(self, what: str) -> KeyReused:
        return KeyReused(
            f"The batch {self.new.key_text!r} of {self.task.name} was submitted with other records: {what}"
            " Another upload needs another batch_key."
        )

    def _cut_otherwise(self, size: int) -> KeyReused:
        return KeyReused(
            f"The batch {self.new.key_text!r} of {self.task.name} is being submitted by another sender in"
            f" chunks of {size}, and here in chunks of {self.new.chunk_size}. Submit it once more: it goes on"
            f" in chunks of {size}. Give the same chunk_size everywhere."
        )

    # -- what is run here: in eager mode, or while SYNC_FALLBACK is on --

    def _run(self, many: Many, digests: list[UUID]) -> None:
        def follow() -> None:
            """Nobody else lets the batch know of chunks that were run here."""
            self._send_later(batches.follow(self.store, digests))

        if self.is_eager:
            self._noting(many.run_here)
            follow()
        elif runs_here():  # after the hook that runs the calls themselves
            commits.on_commit(self.store.connection, follow)

    def _send_later(self, calls: list[Call]) -> None:
        def send() -> None:
            for call in calls:
                self._send(call)

        if self.is_eager:  # where its caller's transaction may never end, as in a TestCase
            send()
        elif calls:
            commits.on_commit(self.store.connection, send)

    def _send(self, call: Call) -> None:
        message = Message.decode(call.task, call.message or "")
        if self.is_eager or (runs_here() and not is_followed(message)):
            task = self.task.app.tasks[call.task]
            self._noting(lambda: run_here(task, message))
        else:
            batches.publish(self.task.app, self.store, [call])

    def _noting(self, run: Callable[[], object]) -> None:
        """Run what may raise, with ``task_eager_propagates``; the first error is raised at the very end."""
        try:
            run()
        except Exception as error:  # noqa: BLE001  whatever a body raises
            self._error = self._error or error


def _reserving(task: Any) -> tuple[Policy, Through]:
    """What reserves calls of this task. Raises ConfigurationError."""
    if not getattr(task, "idempotency_guarded", False) and getattr(task, "idempotency_error", None) is None:
        name = getattr(task, "name", repr(task))
        raise ConfigurationError(f"{name} is not guarded: give it base=IdempotentTask.")
    found: tuple[Policy, Through] = task.idempotency_reserving()
    return found


def _check(
    task: Any, policy: Policy, records: object, chunk_size: object, options: Mapping[str, Any]
) -> None:
    if policy.mode == "atomic":
        raise ConfigurationError(f"{task.name} is atomic: records() needs leased mode. Set mode='leased'.")
    if type(chunk_size) is not int or not 1 <= chunk_size <= LARGEST_CHUNK:
        raise ConfigurationError(f"chunk_size is a number from 1 to {LARGEST_CHUNK}, not {chunk_size!r}.")
    if isinstance(records, str | bytes | Mapping) or not isinstance(records, Iterable):
        kind = type(records).__name__
        raise ConfigurationError(f"records are a list, a queryset or another iterable, not {kind}.")
    for name in _OF_A_CHUNK:
        if name in options:
            raise ConfigurationError(f"{name!r} belongs to a chunk's call, which submit_batch makes.")
    if "records" in (options.get("kwargs") or {}):
        raise ConfigurationError("kwargs has 'records', the argument in which a chunk gets its records.")


def _scope_of(task: Any, policy: Policy, scope: str | None, kwargs: Mapping[str, Any]) -> str | None:
    """The scope of all chunks: the given one, else what the task's own rule says of their arguments."""
    if scope is not None or policy.key_rules.scope is None:
        return scope
    identity = task.idempotency_identity((), {**kwargs, "records": []}, idempotency_key="scope")
    found: str | None = identity.scope
    return found
