"""One daemon thread per process renews the leases that the process holds, and writes progress reports."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

from django.db import Error as DatabaseError

from ..ledger.stores import LedgerStore
from ..ledger.values import Claim, Entry
from ..states import State
from .line import HeartConnection
from .progress import Progress

logger = logging.getLogger("django_idempotent_tasks")

#: A beat every quarter of the lease: three may fail before the lease is over.
BEATS_PER_LEASE = 4


@dataclass(slots=True, eq=False)
class _Held:
    """A lease of this process. ``renewed`` is when its last successful renewal began (monotonic)."""

    claim: Claim
    on_lost: Callable[[], None]
    on_doubt: Callable[[bool], None]
    renewed: float
    tried: float
    lost: bool = False
    doubted: bool = False
    progress: Progress = field(default_factory=Progress)

    @property
    def next_beat(self) -> float:
        return self.tried + self.claim.lease / BEATS_PER_LEASE

    @property
    def deadline(self) -> float:
        return self.renewed + self.claim.lease

    def lose(self) -> None:
        """Note, once, that another attempt has taken the key."""
        if not self.lost:
            self.lost = True
            self.on_lost()

    def doubt(self, *, doubted: bool) -> None:
        """Note whether the lease is over as far as this process knows."""
        if doubted is not self.doubted:
            self.doubted = doubted
            self.on_doubt(doubted)


class Heart:
    """Renews leases after their first quarter, so that short tasks never pay for a beat."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._held: set[_Held] = set()
        self._wakes: float | None = None
        self._thread: threading.Thread | None = None
        self._connection = HeartConnection()

    @contextmanager
    def holding(
        self,
        claim: Claim,
        on_lost: Callable[[], None],
        on_doubt: Callable[[bool], None],
        progress: Progress,
    ) -> Iterator[None]:
        """Keep the claim's lease alive inside; calls ``on_lost`` once if another attempt takes the key.

        Calls ``on_doubt(True)`` when the lease runs out while the database is away, ``(False)`` once renewed.
        """
        now = time.monotonic()
        held = _Held(claim, on_lost, on_doubt, renewed=now, tried=now, progress=progress)
        try:
            try:
                self._take(held)
                yield
            finally:
                self._let_go(held)
        finally:
            # Again, where a signal has struck in the first: no beat is for an attempt that is over.
            if held in self._held:
                self._let_go(held)

    def _take(self, held: _Held) -> None:
        with self._changed:
            self._held.add(held)
            self._start()
            if self._wakes is None or self._wakes > held.next_beat:
                self._changed.notify()  # the thread sleeps for longer than this lease allows

    def _let_go(self, held: _Held) -> None:
        with self._changed:
            self._held.discard(held)

    def stay_connected(self) -> None:
        """Keep a connection from now on, for as long as the process lives."""
        self._connection.keep()

    def hurry(self, progress: Progress) -> None:
        """Wake the thread where ``progress`` has a report to write before the next beat."""
        with self._changed:
            due = progress.due
            if due is not None and (self._wakes is None or self._wakes > due):
                self._changed.notify()

    def _start(self) -> None:
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._run, name="idempotent-heartbeat", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while True:
            self._serve(*self._wait())

    def _serve(self, renewable: list[_Held], reporting: list[_Held]) -> None:
        if renewable:
            self._beat(renewable)
        if reporting:
            self._report(reporting)

    def _wait(self) -> tuple[list[_Held], list[_Held]]:
        """Sleep until a beat or a report is due; returns the leases to renew and those to report for.

        The lock is never held across a statement. The thread refers to no lease while it sleeps.
        """
        with self._changed:
            while (due := self._due(time.monotonic())) is None:
                self._changed.wait(None if self._wakes is None else self._wakes - time.monotonic())
            return due

    def _due(self, now: float) -> tuple[list[_Held], list[_Held]] | None:
        """The leases to renew and those to report for; None where none is due, and ``_wakes`` says when."""
        live = [held for held in self._held if not held.lost]
        beat = min((held.next_beat for held in live), default=None)
        reports = {held: due for held in live if (due := held.progress.due) is not None}
        reporting = [held for held, due in reports.items() if due <= now]
        if reporting or (beat is not None and beat <= now):
            return live if beat is not None and beat <= now else [], reporting
        self._wakes = min([*reports.values(), *([] if beat is None else [beat])], default=None)
        return None

    def _report(self, due: list[_Held]) -> None:
        """Write progress reports; a report that the database does not take is written later.

        An attempt that has lost its key, or was cancelled, learns it here before its next beat.
        """
        try:
            with self._connection.store() as store:
                for held in due:
                    if not held.progress.write(store, held.claim):
                        self._look(store, held)
        except Exception as error:
            if not isinstance(error, DatabaseError):
                logger.exception("Progress was not written")
            for held in due:
                held.progress.put_off()

    def _beat(self, due: list[_Held]) -> None:
        began = time.monotonic()
        for held in due:
            held.tried = began
        try:
            self._renew(due, began)
        except Exception as error:
            if not isinstance(error, DatabaseError):
                logger.exception("A heartbeat failed")
            for held in due:
                self._after_failure(held, began)

    def _renew(self, due: list[_Held], began: float) -> None:
        with self._connection.store() as store:
            renewed = store.renew([held.claim for held in due])
            for held in due:
                if held.claim.digest in renewed:
                    held.renewed = began
                    held.doubt(doubted=False)
                else:
                    self._look(store, held)

    def _look(self, store: LedgerStore, held: _Held) -> None:
        if self._was_lost(store.read(held.claim.digest, task_id=held.claim.call.task_id), held):
            held.lose()

    @staticmethod
    def _was_lost(entry: Entry | None, held: _Held) -> bool:
        """Whether another attempt has the key, or its row is gone.

        The key is not lost while a completion locks the row, when this claim itself has just settled it (a
        settlement keeps the token), or when the lease is over and nobody has taken the key.
        """
        if entry is None or entry.token != held.claim.token:
            return True
        return entry.state is State.RUNNING and entry.owner != held.claim.owner

    @staticmethod
    def _after_failure(held: _Held, began: float) -> None:
        """Plan another beat soon, since the database did not answer, also after the end of the lease.

        A lease that is renewed late still holds, unless another attempt has taken the key.
        """
        held.tried = began - held.claim.lease / BEATS_PER_LEASE + min(1.0, held.claim.lease / 12)
        if time.monotonic() >= held.deadline:
            held.doubt(doubted=True)


_heart = Heart()
#: The parent's hearts, kept for ever: a driver would close the parent's connection when they are freed.
_inherited: list[Heart] = []


def holding(
    claim: Claim, on_lost: Callable[[], None], on_doubt: Callable[[bool], None], progress: Progress
) -> AbstractContextManager[None]:
    """Keep ``claim`` alive on this process's heart, and write its ``progress``; a context manager."""
    return _heart.holding(claim, on_lost, on_doubt, progress)


def stay_connected() -> None:
    """Let this process's heart keep a connection of its own, opened before any body runs.

    Many bodies in one process (greenlets, threads), each with a connection of its own, may take all that the
    server has, and leave none for the heart.
    """
    _heart.stay_connected()


def hurry(progress: Progress) -> None:
    """Write this ``progress`` as soon as its pace allows."""
    _heart.hurry(progress)


def _new_heart() -> None:
    """Give a forked child a heart of its own: the parent's threads are gone, their locks are not."""
    global _heart  # noqa: PLW0603  one heart a process is the point
    _inherited.append(_heart)
    _heart = Heart()


os.register_at_fork(after_in_child=_new_heart)
