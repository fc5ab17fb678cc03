"""Tells, in a worker's parent, whether the worker itself is being stopped."""

from __future__ import annotations

import signal
import threading
from typing import Any

from celery.bootsteps import CLOSE, TERMINATE  # type: ignore[attr-defined]  # not in its stubs
from celery.worker import state

# The worker of this process, from its init on; pool children inherit it and must not ask it.
_worker: Any = None


def watch(worker: Any) -> None:
    """Keep the worker of this process, to be asked from now on."""
    global _worker  # noqa: PLW0603  one worker a process is the point
    _worker = worker


def is_stopping() -> bool:
    """Whether the worker is told to stop, warm or cold, by a signal, remote control or its embedding program.

    For the parent process: Celery notes a signal or a command before it stops the pool, and the
    blueprint's state shows a stop for any other reason. Once begun, a stop is never taken back.
    """
    codes: tuple[Any, ...] = (state.should_stop, state.should_terminate)  # exit codes, of which 0 is one
    if any(code is not None and code is not False for code in codes):
        return True
    return getattr(getattr(_worker, "blueprint", None), "state", None) in {CLOSE, TERMINATE}


def is_consuming() -> bool:
    """Whether the worker takes messages: worker and consumer run, and the consumer has its connection."""
    consumer = getattr(_worker, "consumer", None)
    if consumer is None or is_stopping():
        return False
    return consumer.blueprint.state not in {CLOSE, TERMINATE} and consumer.connection is not None


def may_be_interrupted() -> bool:
    """Whether a KeyboardInterrupt in the calling thread can be Ctrl-C.

    In a worker it cannot, since Celery's handler of SIGINT raises nothing. Python's own handler raises, in
    the main thread, and so may the handler of any other program.
    """
    if threading.current_thread() is not threading.main_thread():
        return _worker is None
    return _worker is None or signal.getsignal(signal.SIGINT) is signal.default_int_handler
