"""A sink that keeps what it is told, for one test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from django.dispatch import Signal

from django_idempotent_tasks import signals
from django_idempotent_tasks.metrics.instruments import Instrument
from django_idempotent_tasks.metrics.listener import Listener

UID = "tests.metrics"


@dataclass
class Heard:
    """What was counted and measured, without the names of tasks."""

    counts: list[tuple[str, ...]] = field(default_factory=list)
    times: list[tuple[str, float]] = field(default_factory=list)
    labels: list[tuple[str, ...]] = field(default_factory=list)

    def add(self, instrument: Instrument, *labels: str) -> None:
        assert len(labels) == len(instrument.labels)
        self.counts.append((instrument.name, *labels[1:]))
        self.labels.append(labels)

    def observe(self, instrument: Instrument, seconds: float, *labels: str) -> None:
        assert len(labels) == len(instrument.labels)
        self.times.append((instrument.name, seconds))
        self.labels.append(labels)

    def seconds(self, name: str) -> list[float]:
        """What was measured under a name."""
        return [seconds for measured, seconds in self.times if measured == name]


@contextmanager
def listening() -> Iterator[Heard]:
    """What is heard meanwhile."""
    heard = Heard()
    Listener(heard).connect(UID)
    try:
        yield heard
    finally:
        disconnect(UID)


def disconnect(uid: str) -> None:
    """Take every receiver of this id away."""
    for signal in vars(signals).values():
        if isinstance(signal, Signal):
            signal.disconnect(dispatch_uid=uid)
