"""One run: traffic and kills at the same time, then silence, then the verdict."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from .chaos import Chaos
from .observe import Observer, duplicates_refused, takeovers
from .programs import wait_until
from .report import Report, print_problems
from .sender import Sender
from .traffic import plan
from .verdict import verdict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .stage import Stage

CHILDREN = 8
QUIET_SECONDS = 60.0


@dataclass(frozen=True)
class Options:
    """The size of a run. ``rate`` is webhooks a second; it matches what four children can charge."""

    events: int = 300
    rate: float = 25.0
    seed: int = 0


def run(stage: Stage, secrets: Mapping[str, str], broker_url: str, options: Options, report: Report) -> bool:
    """Run and print, and return whether the promise was kept."""
    rng = random.Random(options.seed)
    sender = Sender(stage.web_address, plan(secrets, options.events, rng), options.rate)
    observer = Observer(broker_url, stage.gateway_address)
    chaos = Chaos(stage, sender.plan.charges, rng)
    report.step(f"sending {options.events} webhooks, killing workers in the middle of charges")
    sender.start()
    try:
        _interrupt(chaos, sender, report)
        wait_until(lambda: sender.finished, seconds=QUIET_SECONDS)
        report.step("all sent; waiting until every key is final and the broker is empty")
        quiet = wait_until(observer.quiet, seconds=QUIET_SECONDS, every=0.25)
        return _judge(sender, observer, chaos, report, quiet=quiet)
    finally:
        sender.stop()
        observer.close()


def _interrupt(chaos: Chaos, sender: Sender, report: Report) -> None:
    """Kill at moments spread over the traffic: children, and in the middle one whole worker."""
    total = len(sender.plan.deliveries)
    for number in range(CHILDREN + 1):
        wait_until(
            partial(sender.reached, total * (number + 1) // (CHILDREN + 2)), seconds=QUIET_SECONDS, every=0.02
        )
        killed = chaos.kill_worker() if number == CHILDREN // 2 else chaos.kill_child()
        report.step(killed or "nothing to interrupt")


def _judge(sender: Sender, observer: Observer, chaos: Chaos, report: Report, *, quiet: bool) -> bool:
    accepted, plan = list(sender.outcome.accepted.values()), sender.plan
    observed = observer.observed()
    judged = verdict(accepted, observed)
    problems = list(sender.outcome.surprises)
    if not quiet:
        problems.append(
            f"{observer.unfinished_keys()} keys unfinished, {observer.waiting_messages()} messages left"
        )
    if len(accepted) != plan.distinct:
        problems.append(f"{len(accepted)} of {plan.distinct} events were accepted")
    if not (chaos.children_killed and chaos.workers_killed):
        problems.append("nothing was killed, so nothing was shown")
    gateway = observer.gateway("/stats")
    report.table(
        {
            "webhooks sent": len(plan.deliveries),
            "distinct events": plan.distinct,
            "duplicates refused": duplicates_refused(),
            "malformed refused": sender.outcome.refused,
            "children killed": chaos.children_killed,
            "workers killed": chaos.workers_killed,
            "takeovers": takeovers(),
            "charges due": sum(event.chargeable for event in accepted),
            "charges booked": len(list(observed.booked)),
            "notifications": len(list(observed.notified)),
            "gateway charges": gateway["charges"],
            "gateway raw calls": gateway["raw_calls"],
            "gateway keys called twice": gateway["keys_called_twice"],
            "lost": len(judged.lost),
            "doubled": len(judged.doubled),
            "seconds": f"{report.seconds:.1f}",
        }
    )
    print_problems(judged, problems)
    return judged.holds and not problems
