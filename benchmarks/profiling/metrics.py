"""What metrics cost a task in its process: the same calls with and without them, in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from statistics import median
from time import thread_time_ns
from typing import Any

from django.dispatch import Signal

from benchmarks.figures.table import figure, render
from benchmarks.handler.handler import HANDLERS, Bench, Handler
from django_idempotent_tasks import signals

MEASURED = ("atomic", "complete", "return")
#: Calls in a row of each kind: one alone is shorter than the clock of a busy machine is fine.
BLOCK = 20
_UID = __name__


def metrics_table(calls: int) -> tuple[str, dict[str, dict[str, float]]]:
    """The median processor time of a call without and with Prometheus' counters, and what they add.

    Empty where prometheus-client is not installed.
    """
    if find_spec("prometheus_client") is None:
        return "", {}
    found = {each.label: _measured(each, calls) for each in HANDLERS if each.label in MEASURED}
    rows = [
        (label, figure(one["off"]), figure(one["on"]), f"{one['share']:+.1%}") for label, one in found.items()
    ]
    head = ("task", "without, us", "with Prometheus, us", "more")
    return f"One call with metrics, us of processor time\n\n{render(head, rows)}", found


def _measured(handler: Handler, calls: int) -> dict[str, float]:
    bench, times = Bench(), {"off": list[float](), "on": list[float]()}
    _block(bench, handler)
    for number in range(max(calls // BLOCK, 4)):
        for way in ("off", "on") if number % 2 else ("on", "off"):
            with _WAYS[way]():
                times[way].append(_block(bench, handler))
    off, on = median(times["off"]), median(times["on"])
    # Neighbours in time are compared with each other: the machine's own speed drifts.
    pairs = zip(times["off"], times["on"], strict=True)
    return {"off": off, "on": on, "share": median(with_ / without for without, with_ in pairs) - 1}


def _block(bench: Bench, handler: Handler) -> float:
    """Microseconds of this thread's processor time for a call."""
    began = thread_time_ns()
    for _ in range(BLOCK):
        bench.call(handler)
    return (thread_time_ns() - began) / BLOCK / 1000


@contextmanager
def _off() -> Iterator[None]:
    yield


@contextmanager
def _on() -> Iterator[None]:
    from django_idempotent_tasks.metrics import prometheus  # noqa: PLC0415  may not be installed
    from django_idempotent_tasks.metrics.listener import Listener  # noqa: PLC0415  as above

    Listener(prometheus.sink()).connect(_UID)
    try:
        yield
    finally:
        for signal in vars(signals).values():
            if isinstance(signal, Signal):
                signal.disconnect(dispatch_uid=_UID)


_WAYS: dict[str, Callable[[], Any]] = {"off": _off, "on": _on}
