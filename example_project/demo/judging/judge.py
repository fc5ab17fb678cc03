"""Passes judgement on a finished run: prints the figures, and what is wrong."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..traffic import OUTAGES
from .observe import duplicates_refused, takeovers, wrong_totals
from .report import print_problems
from .timetable import Job, deviations
from .verdict import Accepted, Observed, Verdict, verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..beats import Beats
    from ..chaos import Chaos
    from ..connections import Connections
    from ..decisions import Decisions
    from ..sender import Sender
    from ..stage import Stage
    from .observe import Observer
    from .report import Report


@dataclass(frozen=True, slots=True)
class Run:
    """Who took part."""

    stage: Stage
    sender: Sender
    observer: Observer
    chaos: Chaos
    connections: Connections
    decisions: Decisions
    beats: Beats

    @property
    def accepted(self) -> list[Accepted]:
        """What the webhook answered with 202."""
        return [self._as_decided(event) for event in self.sender.outcome.accepted.values()]

    def _as_decided(self, event: Accepted) -> Accepted:
        by_hand = event.event_id == self.sender.plan.oversized[1].event["id"]
        return replace(event, by_hand=True) if by_hand and self.decisions.resolved else event


def judge(run: Run, report: Report, *, quiet: bool) -> bool:
    """Print the figures and the problems, and return whether there are none."""
    observed = run.observer.observed()
    judged = verdict(run.accepted, observed)
    problems = [
        *run.sender.outcome.surprises,
        *_problems(run, quiet=quiet),
        *_periodic_problems(run.beats),
    ]
    jobs = run.beats.jobs()
    figures = _figures(run, observed, judged) | _periodic_figures(run, jobs)
    report.table({**figures, "seconds": f"{report.seconds:.1f}"})
    print_problems(judged, problems)
    holds = judged.holds and not problems
    times = sum(len(job.due) for job in jobs.values())
    report.verdict(f"{len(run.accepted)} events and {times} times of periodic tasks, each once", holds=holds)
    return holds


def _problems(run: Run, *, quiet: bool) -> Iterator[str]:
    """Say what kept the run from ending, or from showing anything."""
    due = run.sender.plan.distinct + len(run.sender.plan.apart)
    if not quiet:
        left = f"{run.observer.unfinished_keys()} keys unfinished, {run.observer.waiting_messages()} messages"
        yield f"{left} left, or the poison was not refused at its second coming"
    if len(run.accepted) != due:
        yield f"{len(run.accepted)} of {due} events were accepted"
    if len(run.stage.alive()) != len(run.stage.workers):
        yield "a worker ended, or lacks a child"
    if not (run.chaos.children_killed and run.chaos.workers_killed):
        yield "nothing was killed, so nothing was shown"
    if run.decisions.redriven <= OUTAGES:
        yield f"{run.decisions.redriven} dead letters were redriven, not more than {OUTAGES}"
    if wrong_totals():
        yield f"{wrong_totals()} totals of tenants are not what their charges come to"
    if run.connections.spared:
        yield "no connection was cut, so nothing was shown"


def _periodic_problems(beats: Beats) -> Iterator[str]:
    if not beats.killed:
        yield "no beat was killed, so nothing was shown"
    if beats.differences() != 0:
        yield f"the books differ from the gateway's: {beats.differences()}"
    yield from deviations(beats.jobs())


def _periodic_figures(run: Run, jobs: dict[str, Job]) -> dict[str, object]:
    return {
        "beats killed": run.beats.killed,
        "periodic times due": sum(len(job.due) for job in jobs.values()),
        "periodic times run": sum(len(job.ran) for job in jobs.values()),
        "charges that only one side knows": run.beats.differences(),
    }


def _figures(run: Run, observed: Observed, judged: Verdict) -> dict[str, object]:
    gateway = run.observer.gateway("/stats")
    poison = next((event for event in run.accepted if event.poison), None)
    return {
        "webhooks sent": run.sender.outcome.statuses.total(),
        "distinct events": len(run.accepted),
        "duplicates refused": duplicates_refused(),
        "malformed refused": run.sender.outcome.refused,
        "children killed": run.chaos.children_killed,
        "workers killed": run.chaos.workers_killed,
        "database connections cut": run.connections.database_cut,
        "broker connections cut": run.connections.broker_cut,
        "takeovers": takeovers(),
        "charges due": sum(event.chargeable for event in run.accepted),
        "charges booked": len(list(observed.booked)),
        "notifications": len(list(observed.notified)),
        "gateway charges": gateway["charges"],
        "gateway raw calls": gateway["raw_calls"],
        "gateway keys called twice": gateway["keys_called_twice"],
        "poison: starts": observed.calls.get(poison.payment, 0) if poison else "unknown",
        "poison: workers ended": observed.deaths.get(poison.event_id, 0) if poison else "unknown",
        "poison: key": observed.key_states.get(poison.event_id, "none") if poison else "unknown",
        "expected ends": run.decisions.expected,
        "dead letters: fatal": run.decisions.fatal,
        "dead letters: retryable": run.decisions.retryable,
        "dead letters: in review": run.decisions.review,
        "dead letters redriven": run.decisions.redriven,
        "dead letters resolved": run.decisions.resolved,
        "workers alive": len(run.stage.alive()),
        "lost": len(judged.lost),
        "doubled": len(judged.doubled),
    }
