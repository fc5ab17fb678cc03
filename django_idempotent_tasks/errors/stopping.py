"""Tells, in a worker's parent, whether the worker itself is being stopped."""

from __future__ import annotations

import signal
import threading
from typing import Any

from celery.bootsteps import CLOSE, TERMINATE  # type: ignore[attr-defined]  # not in its stubs
from celery.worker import state

# The worker of this process, from its init on; children inherit it and must not ask it.
_worker: Any = None


def watch(worker: Any) -> None:
    """Ask this worker from now on."""
    global _worker  # noqa: PLW0603  one worker a process is the point
    _worker = worker


def is_stopping() -> bool:
    """Whether the worker is told to stop, warm or cold, by a signal, remote control or its embedding program.

    For its parent process: Celery notes a signal or a command before it stops the pool, and the
    blueprint's state is that of a stop for any other reason. Once begun, a stop is never taken back.
    """
    told: tuple[Any, ...] = (state.should_stop, state.should_terminate)  # an exit code, and 0 is one
    if any(code is not None and code is not False for code in told):
        return True
    return getattr(getattr(_worker, "blueprint", None), "state", None) in {CLOSE, TERMINATE}


def is_consuming() -> bool:
    """Whether the worker takes messages: it runs, its consumer does, and that has its connection."""
    consumer = getattr(_worker, "consumer", None)
    if consumer is None or is_stopping():
        return False
    return consumer.blueprint.state not in {CLOSE, TERMINATE} and consumer.connection is not None


def may_be_interrupted() -> bool:
    """Whether a KeyboardInterrupt in the calling thread can be Ctrl-C; a worker hears that by another way.

    Celery's handler of SIGINT raises nothing. Python's own does, in the main thread, and any other
    program than a worker may have one that does.
    """
    if threading.current_thread() is not threading.main_thread():
        return _worker is None
    return _worker is None or signal.getsignal(signal.SIGINT) is signal.default_int_handler
