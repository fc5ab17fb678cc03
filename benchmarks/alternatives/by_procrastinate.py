"""Procrastinate: the job as its task, in the transaction of Django's connection."""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from typing import Any

from benchmarks.alternatives.job import write
from benchmarks.alternatives.sender import Arguments, Sender
from benchmarks.throughput.worker import CHILDREN

_app: Any = import_module("procrastinate.contrib.django").app
_job: Any = _app.task(name="alternatives.write")(write)
_taken: Any = import_module("procrastinate.exceptions").AlreadyEnqueued


def sender() -> Sender:
    """How it takes jobs."""
    return Sender(
        lambda arguments: _job.defer(**arguments),
        lambda jobs: _job.batch_defer(*jobs),
        _refuse,
    )


def work() -> None:
    """Work off the queue."""
    with _app.replace_connector(_app.connector.get_worker_connector()) as worker:
        worker.run_worker(wait=False, concurrency=CHILDREN, install_signal_handlers=False)


def _refuse(arguments: Arguments) -> None:
    """Send a job whose lock another one that waits has."""
    with suppress(_taken):
        _job.configure(queueing_lock="taken").defer(**arguments | {"batch": "refused"})
