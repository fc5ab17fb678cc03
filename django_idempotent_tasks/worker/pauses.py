"""The thread of a worker's parent that reads the pauses every two seconds, and tells the children of them."""

from __future__ import annotations

import logging
import threading
import time

from ..ledger import pauses
from .presence import own

logger = logging.getLogger("django_idempotent_tasks")

#: Seconds between two looks, and after a look that failed.
EVERY, REST = pauses.FRESH, 10.0


class Watch:
    """Reads the pauses until it is stopped; a ledger that is away is asked more rarely."""

    def __init__(self) -> None:
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._failed_at = -REST

    def start(self) -> None:
        """Look once, so that the first message finds what is paused, and then again and again."""
        self._look()
        self._stopped.clear()
        self._thread = threading.Thread(target=self._run, name="idempotent-pauses", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread; it may be in the middle of a look, which is bounded."""
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.wait(EVERY):
            if time.monotonic() - self._failed_at >= REST:
                self._look()

    def _look(self) -> None:
        try:
            own.use(pauses.read)  # the other kept one is the event loop's, which would wait for this look
        except Exception as error:  # noqa: BLE001  the worker goes on with what it knows
            self._failed_at = time.monotonic()
            logger.warning("The pauses could not be read (%r): this process keeps those that it knows", error)


watch = Watch()
