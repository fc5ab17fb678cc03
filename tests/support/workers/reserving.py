"""Reserving tasks (``--include tests.support.workers.reserving``), and a caller that sends them to a site."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from celery.worker.control import control_command
from django.test import override_settings

from django_idempotent_tasks.messages.relay import relay
from tests.sample.celery import app
from tests.sample.tasks import begin, effect, guarded, write_effect
from tests.support.brokers.control import LISTENING
from tests.support.workers.processes import Worker
from tests.support.workers.site import Site

#: Reserved work is sent again by the sweeper only where a test asks for it.
LEASE = 20

charge = guarded(name="reserving.charge", reserve=True, lease=LEASE)(effect)
strict = guarded(name="reserving.strict", reserve=True, lease=LEASE, on_duplicate="raise")(effect)


@guarded(name="reserving.collect", reserve=True, lease=LEASE)
def collect(self: Any, results: list[Any], key: str) -> list[Any]:
    """End a chord or a chain: return what came before."""
    begin(self, key)
    write_effect(self, key)
    return results


def _commit(self: Any, key: str, gated: bool = False) -> dict[str, Any]:
    """Write an effect that commits with the key."""
    begin(self, key, gated=gated)
    return write_effect(self, key)


committing = guarded(name="reserving.committing", mode="atomic")(_commit)
#: Atomic tasks whose message does not come back from a lost child.
acked_early = guarded(name="reserving.acked_early", mode="atomic", acks_late=False)(_commit)
acked_when_lost = guarded(name="reserving.acked_when_lost", mode="atomic", reject_on_worker_lost=False)(
    _commit
)
retried_no_more = guarded(
    name="reserving.retried_no_more", mode="atomic", retry_on_worker_lost=True, max_retries=0
)(_commit)


@control_command(args=[("pid", int)])
def kill_child(state: Any, pid: int) -> None:
    """End a call of a child as Celery does, which looks at the child alone."""
    state.consumer.pool.terminate_job(pid, signal.SIGTERM)


@app.task(name="reserving.replaced", bind=True)
def replaced(self: Any, key: str) -> None:
    """A task of Celery's own that another takes the place of."""
    raise self.replace(strict.si(key))


@contextmanager
def sending_to(site: Site, **settings: Any) -> Iterator[None]:
    """Let this process reserve in the site's database and send to its broker, as a web process does."""
    before = app.conf.broker_transport_options
    _reconnect({**before, "global_keyprefix": site.broker.prefix})
    try:
        with override_settings(IDEMPOTENT_TASKS={"DATABASE": site.rows.alias, **settings}):
            yield
    finally:
        _reconnect(before)


def _reconnect(options: dict[str, Any]) -> None:
    """Every connection of this process to the broker from now on has these options."""
    app.conf.update(broker_transport_options=options)
    app._after_fork()  # type: ignore[attr-defined]  # not in the stubs
    relay._closed_until = 0
    relay.forget()


def worker(site: Site, name: str, *, concurrency: int = 1) -> Worker:
    """A worker that knows these tasks and listens to remote control, not yet started."""
    arguments = ("--concurrency", str(concurrency), "--include", __name__)
    return site.worker(name, *arguments, PROJ_CELERY=json.dumps(LISTENING))


@contextmanager
def working(site: Site, name: str, *, concurrency: int = 1) -> Iterator[Worker]:
    """Start such a worker; it is killed at the end."""
    started = worker(site, name, concurrency=concurrency)
    try:
        yield started.start()
    finally:
        started.kill()
