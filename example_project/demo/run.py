"""The first act: traffic and strikes at the same time, then silence, then the verdict."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from django_idempotent_tasks.models import IdempotencyKey
from example_project.payments.tasks import handle_event

from .beats import Beats
from .chaos import Chaos
from .connections import Connections
from .decisions import Decisions, decide
from .judging.judge import Run, judge
from .judging.observe import Observer
from .programs import wait_until
from .sender import Sender
from .traffic import plan

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from example_project.servers import Servers

    from .judging.report import Report
    from .stage import Stage

QUIET_SECONDS = 60.0


@dataclass(frozen=True)
class Options:
    """The size of a run. ``rate`` is webhooks a second; it matches what four children can charge."""

    events: int = 300
    rate: float = 25.0
    seed: int = 0


def run(stage: Stage, secrets: Mapping[str, str], servers: Servers, options: Options, report: Report) -> bool:
    """Run and print, and return whether the promise was kept."""
    rng = random.Random(options.seed)
    sender = Sender(stage.web_address, plan(secrets, options.events, rng), options.rate)
    observer = Observer(servers.broker_url, stage.gateway_address)
    charges = IdempotencyKey.objects.filter(task=handle_event.name, key_text__in=sender.plan.charges)
    chaos = Chaos(stage, charges.all, "charging", rng)
    connections = Connections(servers)
    beats = Beats(stage)
    report.step(f"sending {options.events} webhooks, striking in the middle of charges")
    sender.start()
    try:
        _interrupt(_strikes(chaos, connections, sender, beats), sender, report)
        wait_until(lambda: sender.finished, seconds=QUIET_SECONDS)
        report.step("all sent; waiting until every key is final and the broker is empty")
        quiet = wait_until(observer.quiet, seconds=QUIET_SECONDS, every=0.25)
        observer.end_outage()
        decisions = decide(sender.plan, report) if quiet else Decisions()
        quiet = quiet and _send_poison_again(sender, observer, report)
        quiet = _close_the_books(beats, observer, report) and quiet
        run = Run(stage, sender, observer, chaos, connections, decisions, beats)
        return judge(run, report, quiet=quiet)
    finally:
        sender.stop()
        observer.close()


def _strikes(chaos: Chaos, connections: Connections, sender: Sender, beats: Beats) -> list[Callable[[], str]]:
    """List what is done to the run; what fails at once, since the waits between its attempts grow."""
    return [
        partial(_send_failures, sender),
        beats.kill_leader,
        chaos.kill_child,
        partial(chaos.cut, connections.cut_broker),
        chaos.kill_child,
        partial(chaos.cut, connections.cut_database),
        chaos.kill_child,
        chaos.kill_worker,
        *[chaos.kill_child] * 2,
    ]


def _interrupt(strikes: list[Callable[[], str]], sender: Sender, report: Report) -> None:
    """Strike at moments spread over the traffic."""
    total = len(sender.plan.deliveries)
    for number, strike in enumerate(strikes):
        moment = total * number // len(strikes)
        wait_until(partial(sender.reached, moment), seconds=QUIET_SECONDS, every=0.02)
        report.step(strike() or "nothing to interrupt")


def _close_the_books(beats: Beats, observer: Observer, report: Report) -> bool:
    """Let the other beat catch up, stop it, and compare the books by hand. Returns whether all is quiet."""
    caught_up = beats.close()
    report.step("stopped the other beat; reconciling the books by hand")
    return beats.reconcile_by_hand() and wait_until(observer.quiet, seconds=QUIET_SECONDS) and caught_up


def _send_failures(sender: Sender) -> str:
    for delivery in (*sender.plan.outage, *sender.plan.oversized):
        sender.deliver(delivery)
    return f"{_send_poison(sender)}, and {len(sender.plan.apart) - 1} that will fail"


def _send_poison(sender: Sender) -> str:
    sender.deliver(sender.plan.poison)
    return "sent an event that ends each child that handles it"


def _send_poison_again(sender: Sender, observer: Observer, report: Report) -> bool:
    """As a provider may, long after. Returns whether it was refused and left nothing behind."""
    report.step(_send_poison(sender) + ", again")
    event_id = sender.plan.poison.event["id"]
    return wait_until(lambda: observer.refused(event_id) and observer.quiet(), seconds=QUIET_SECONDS)
