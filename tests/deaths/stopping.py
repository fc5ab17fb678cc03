"""A worker that is told to stop while it runs a body, and who takes its messages over."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.support.brokers.control import consume
from tests.support.workers.processes import Worker
from tests.support.workers.site import Site


@contextmanager
def stopping(
    site: Site,
    key: str,
    heir: Worker,
    call: tuple[Any, str],
    begun: Callable[[Site, str], object],
    **celery: object,
) -> Iterator[Worker]:
    """A worker that runs the body of a key, alone until then; afterwards the heir takes its messages."""
    task, plan = call
    arguments = ("--queues", key, "--concurrency", "1")
    with site.running("stopping", *arguments, PROJ_CELERY=json.dumps(celery)) as worker:
        site.send(task, key, [plan], options={"queue": key})
        begun(site, key)
        consume(site, key, by=heir)
        yield worker
