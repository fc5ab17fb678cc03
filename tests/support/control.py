"""Remote control of a site's workers, as an operator uses it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kombu import Connection

from tests.proj.celery import app
from tests.support.processes import Worker
from tests.support.site import Site

#: What PROJ_CELERY must say for a worker to listen.
LISTENING = {"worker_enable_remote_control": True}


def revoke(site: Site, *task_ids: str, **options: Any) -> None:
    """Revoke calls on every worker of the site that listens."""
    with _connection(site) as connection:
        app.control.revoke(list(task_ids), connection=connection, **options)


def consume(site: Site, queue: str, *, by: Worker) -> None:
    """Let one worker consume another queue as well; returns when it does."""
    with _connection(site) as connection:
        answers = app.control.add_consumer(
            queue, destination=[f"{by.name}@tests"], reply=True, limit=1, timeout=10, connection=connection
        )
    assert answers, f"{by.name} did not answer"


@contextmanager
def _connection(site: Site) -> Iterator[Connection]:
    transport = {"global_keyprefix": site.broker.prefix}
    with app.connection_for_write(site.broker.url, transport_options=transport) as connection:
        yield connection
