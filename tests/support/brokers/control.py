"""Remote control of a site's workers, as an operator uses it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from celery import Celery
from celery.app.control import Control

from tests.support.workers.processes import Worker
from tests.support.workers.site import Site

#: What PROJ_CELERY must say for a worker to listen.
LISTENING = {"worker_enable_remote_control": True}


def revoke(site: Site, *task_ids: str, **options: Any) -> None:
    """Revoke calls on every worker of the site that listens."""
    with _control(site) as control:
        control.revoke(list(task_ids), **options)


def consume(site: Site, queue: str, *, by: Worker) -> None:
    """Let one worker consume another queue as well; returns when it does."""
    with _control(site) as control:
        answers = control.add_consumer(
            queue, destination=[f"{by.name}@tests"], reply=True, limit=1, timeout=10
        )
    assert answers, f"{by.name} did not answer"


def ping(site: Site, node: str, *, answers: int) -> list[Any]:
    """What ``celery inspect ping -d node`` gets; it waits for so many answers, or for 10 s."""
    with _control(site) as control:
        return list(control.ping(destination=[node], timeout=10, limit=answers) or [])


def command_to(site: Site, name: str, **arguments: Any) -> list[Any]:
    """Tell the site's worker something by remote control; what it answers."""
    with _control(site) as control:
        return list(control.broadcast(name, arguments=arguments, reply=True, timeout=10, limit=1) or [])


def shut_down(site: Site, worker: Worker) -> None:
    """Tell one worker of the site to stop."""
    with _control(site) as control:
        control.shutdown(destination=[f"{worker.name}@tests"])


@contextmanager
def _control(site: Site) -> Iterator[Control]:
    """An app of its own: remote control goes through the app's pool, whatever connection is given."""
    options = {"global_keyprefix": site.broker.prefix}
    with Celery(broker=site.broker.url, set_as_current=False, fixups=[]) as app:
        app.conf.broker_transport_options = options
        yield app.control
