"""Keeps counts and times for Prometheus, and writes them and the gauges in its text format."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any

from django.db import connections
from prometheus_client import (
    REGISTRY,
    CollectorRegistry,
    Counter,
    Histogram,
    generate_latest,
    start_http_server,
)
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from .gauges import samples
from .instruments import BOUNDS, COUNTERS, GAUGES, HISTOGRAMS, Instrument

PREFIX = "idempotent_tasks"
#: The content type of what :func:`exposition` returns.
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
#: The directory in which the processes of a host share what they count, as prometheus_client names it.
DIRECTORY = "PROMETHEUS_MULTIPROC_DIR"


def full_name(instrument: Instrument) -> str:
    """The name without the suffixes ``_total``, ``_bucket``, ``_sum`` and ``_count``."""
    return "_".join(filter(None, (PREFIX, instrument.name, instrument.unit)))


class PrometheusSink:
    """Counters and histograms in the library's default registry, which a project may serve by itself."""

    def __init__(self) -> None:
        self._counters = {each: Counter(full_name(each), each.words, each.labels) for each in COUNTERS}
        self._histograms = {
            each: Histogram(full_name(each), each.words, each.labels, buckets=BOUNDS) for each in HISTOGRAMS
        }
        self._children: dict[tuple[Instrument, tuple[str, ...]], Any] = {}

    def add(self, instrument: Instrument, *labels: str) -> None:
        self._child(self._counters, instrument, labels).inc()

    def observe(self, instrument: Instrument, seconds: float, *labels: str) -> None:
        self._child(self._histograms, instrument, labels).observe(seconds)

    def _child(self, of: Any, instrument: Instrument, labels: tuple[str, ...]) -> Any:
        """The library looks a child up under a lock; labels are few, so each is kept."""
        child = self._children.get((instrument, labels))
        if child is None:
            child = self._children[instrument, labels] = of[instrument].labels(*labels)
        return child


@cache
def sink() -> PrometheusSink:
    """The one sink of this process: the library refuses a second metric of one name."""
    return PrometheusSink()


class LedgerCollector(Collector):
    """The gauges, read from the ledger at each scrape. Register it in a registry that you serve yourself."""

    def collect(self) -> Iterator[Metric]:
        """Each gauge that has a value."""
        families = {
            each: GaugeMetricFamily(full_name(each), each.words, labels=each.labels) for each in GAUGES
        }
        for sample in samples():
            families[sample.instrument].add_metric(sample.labels, sample.value)
        return (family for family in families.values() if family.samples)

    def describe(self) -> Iterable[Metric]:
        """Nothing: registering it asks no database."""
        return []


class _Ours(Collector):
    """What another collector has of this package's metrics."""

    def __init__(self, source: Any) -> None:
        self.source = source

    def collect(self) -> Iterator[Metric]:
        return (metric for metric in self.source.collect() if metric.name.startswith(f"{PREFIX}_"))


class _Closing(LedgerCollector):
    """For a thread of its own: whoever scraped last leaves no connection behind."""

    def collect(self) -> Iterator[Metric]:
        try:
            yield from list(super().collect())
        finally:
            connections.close_all()


def registry(gauges: LedgerCollector) -> CollectorRegistry:
    """The package's metrics: of all processes that share the directory, else of this one, and the gauges."""
    found = CollectorRegistry()
    # The library reads the files of the directory, also those of processes that have ended.
    shared: Any = REGISTRY
    if os.environ.get(DIRECTORY):
        shared = MultiProcessCollector(CollectorRegistry())  # type: ignore[no-untyped-call]  # theirs
    found.register(_Ours(shared))
    found.register(gauges)
    return found


def exposition() -> bytes:
    """The package's metrics as text."""
    return generate_latest(registry(LedgerCollector()))


def serve(address: str, port: int) -> Callable[[], None]:
    """Serve them in a thread; returns what ends it. Raises OSError where the port is taken."""
    server, thread = start_http_server(port, address, registry(_Closing()))

    def stop() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return stop
