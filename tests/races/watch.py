"""The clock by which a reservation waits, so that tests need not: it runs on with every nap."""

from __future__ import annotations

import threading

import pytest

from django_idempotent_tasks.ledger import reserving


class Watch:
    """Stands in for the module ``time`` of the ledger."""

    def __init__(self) -> None:
        self.naps: list[float] = []
        self.has_napped = threading.Event()
        self.may_go_on = threading.Event()
        self.may_go_on.set()
        self._local = threading.local()

    def monotonic(self) -> float:
        """The seconds that this thread has slept so far."""
        return float(getattr(self._local, "now", 0.0))

    def sleep(self, seconds: float) -> None:
        """Let the time pass at once, or when the test says so."""
        self._local.now = self.monotonic() + seconds
        self.naps.append(seconds)
        self.has_napped.set()
        assert self.may_go_on.wait(30)


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    watch = Watch()
    monkeypatch.setattr(reserving, "time", watch)
    return watch
