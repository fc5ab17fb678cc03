"""``idem health worker``, ``sweeper`` and ``relay``: a line and an exit code for probes."""

from __future__ import annotations

from celery.utils.nodenames import default_nodename, host_format

from ...ledger.stores import LedgerStore
from ...operations.health.probe import Health
from ...operations.health.relay import relay_health
from ...operations.health.sweeper import sweeper_health
from ...operations.health.worker import worker_health
from ..cli.project import project_app
from ..cli.report import FINDINGS, FINE, Options, Report, Say, could_not_run
from .pauses import in_force


def probe_worker(_store: LedgerStore | None, options: Options, _say: Say) -> Report:
    """Report whether a worker takes messages from each of its queues; it needs no database."""
    busy = options["max_busy"]
    return _report(
        worker_health(
            project_app(),
            host_format(default_nodename(options["name"])),
            queues=options["queue"],
            within=options["timeout"],
            max_busy=None if busy is None else busy.total_seconds(),
        )
    )


def probe_sweeper(store: LedgerStore, options: Options, _say: Say) -> Report:
    """Report whether the sweeper is led, and when it ended its last sweep."""
    return in_force(store, _report(sweeper_health(store, late=options["max_age"])))


def probe_relay(store: LedgerStore, options: Options, _say: Say) -> Report:
    """Report whether the broker answers, and how long the oldest message waits to be sent."""
    return in_force(store, _report(relay_health(store, project_app(), late=options["max_age"])))


def _report(health: Health) -> Report:
    """Raises CommandError (2) where the probe could not look."""
    if health.blind:
        raise could_not_run(health.blind)
    lines = health.problems or [health.summary]
    facts = {"healthy": not health.problems, **health.facts, "problems": health.problems}
    return Report(facts, lines, FINDINGS if health.problems else FINE)
