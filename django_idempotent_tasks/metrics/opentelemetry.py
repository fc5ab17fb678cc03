"""Keeps counts and times through the OpenTelemetry API, and describes the attempt on the current span."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from opentelemetry import metrics, trace

from .attributes import Described, describe
from .gauges import Sample, samples
from .instruments import BOUNDS, COUNTERS, GAUGES, HISTOGRAMS, Instrument

PREFIX = "idempotent_tasks"
#: Seconds for which one reading of the ledger serves all gauges of one export.
FRESH = 1.0


class OpenTelemetrySink:
    """Instruments of the project's meter provider; without an SDK they cost next to nothing."""

    def __init__(self) -> None:
        meter = metrics.get_meter("django_idempotent_tasks")
        self._counters = {
            each: meter.create_counter(_name(each), unit=f"{{{each.name}}}", description=each.words)
            for each in COUNTERS
        }
        self._histograms = {
            each: meter.create_histogram(
                _name(each), "s", each.words, explicit_bucket_boundaries_advisory=list(BOUNDS)
            )
            for each in HISTOGRAMS
        }

    def add(self, instrument: Instrument, *labels: str) -> None:
        self._counters[instrument].add(1, dict(zip(instrument.labels, labels, strict=True)))

    def observe(self, instrument: Instrument, seconds: float, *labels: str) -> None:
        attributes = dict(zip(instrument.labels, labels, strict=True))
        self._histograms[instrument].record(seconds, attributes)


@cache
def sink() -> OpenTelemetrySink:
    """The one sink of this process."""
    return OpenTelemetrySink()


@cache
def observe_ledger() -> None:
    """Export the gauges from this process as well; call it once, in one process of the project.

    Each export then reads the ledger with a fixed number of bounded statements.
    """
    meter, reading = metrics.get_meter("django_idempotent_tasks"), _Reading()
    for each in GAUGES:
        meter.create_observable_gauge(_name(each), [reading.of(each)], "s" if each.unit else "1", each.words)


def describe_span(described: Described) -> None:
    """Set the attributes of an attempt, or of a refusal, on the span that is current."""
    span = trace.get_current_span()
    if span.is_recording():
        span.set_attributes(described)


def connect_spans() -> None:
    """Describe each attempt and each refusal."""
    describe(describe_span, uid=f"{__name__}.spans")


class _Reading:
    """One reading of the ledger for the gauges of one export."""

    def __init__(self) -> None:
        self._read_at = -FRESH
        self._samples: list[Sample] = []

    def of(self, instrument: Instrument) -> Callable[[Any], Iterator[Any]]:
        """The callback of a gauge."""

        def observe(_options: Any) -> Iterator[Any]:
            for sample in self._now():
                if sample.instrument is instrument:
                    attributes = dict(zip(instrument.labels, sample.labels, strict=True))
                    yield metrics.Observation(sample.value, attributes)

        return observe

    def _now(self) -> list[Sample]:
        if time.monotonic() - self._read_at >= FRESH:
            self._samples = samples()
            self._read_at = time.monotonic()
        return self._samples


def _name(instrument: Instrument) -> str:
    return f"{PREFIX}.{instrument.name}"
