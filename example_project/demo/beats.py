"""Two beats, of which the one that leads is killed, and what was to run by the clock."""

from __future__ import annotations

import json
from datetime import timedelta
from io import StringIO
from typing import TYPE_CHECKING

from django.core.management import call_command
from django.utils import timezone
from django_celery_beat.models import PeriodicTask

from django_idempotent_tasks.models import BeatCursor, Leader
from example_project.books.models import JobRun, Reconciliation
from example_project.books.once import NAME, open_the_books_at

from .judging.timetable import Job, grid
from .programs import Program, stop_all, wait_until
from .stage import PERIOD

if TYPE_CHECKING:
    from datetime import datetime

    from .stage import Stage

#: What is compared once more, by hand, when everything is quiet.
BY_HAND = "Reconcile the books"
#: Seconds until what runs once runs: while nobody leads.
ONCE_AFTER = 8
#: Seconds for a beat to lead, or to take over: a lease of 15 s and a look.
PATIENCE = 25.0


class Beats:
    """The beats of ``stage``, and the rows that tell what they did."""

    def __init__(self, stage: Stage) -> None:
        self.killed = 0
        self._stage = stage
        self._once_at: datetime | None = None

    def kill_leader(self) -> str:
        """SIGKILL the beat that leads, once it has sent something, and leave it to the other one."""
        if not wait_until(lambda: bool(self._leader()) and JobRun.objects.exists(), seconds=PATIENCE):
            return ""
        leader = self._leader()
        self._once_at = timezone.now() + timedelta(seconds=ONCE_AFTER)
        open_the_books_at(self._once_at)
        if leader is None:
            return ""
        leader.kill()
        self._stage.beats.remove(leader)
        self.killed += 1
        return f"killed {leader.name}, which led"

    def close(self) -> bool:
        """Wait until the other beat has caught up, and stop it. Returns whether it has."""
        caught_up = wait_until(self._has_caught_up, seconds=PATIENCE)
        stop_all(self._stage.beats)
        return caught_up

    def reconcile_by_hand(self) -> bool:
        """Run a comparison now, as a person would. Returns whether it was accepted."""
        printed = StringIO()
        words = ("--reason", "the day is over", "--yes", "--format", "json")
        call_command("idem", "beat", "run-now", BY_HAND, *words, stdout=printed)
        return bool(json.loads(printed.getvalue())["outcome"] == "sent")

    def jobs(self) -> dict[str, Job]:
        """What was due and what ran, but for the run by hand."""
        by_hand = JobRun.objects.filter(job="reconcile_all").order_by("due_at").last()
        runs = [run for run in JobRun.objects.all() if run != by_hand]
        return {entry.name: self._job(entry, runs) for entry in PeriodicTask.objects.order_by("name")}

    def differences(self) -> int | None:
        """Return how many charges the last comparison found on one side only; None without one a tenant."""
        last = Reconciliation.objects.first()
        rows = [] if last is None else list(Reconciliation.objects.filter(due_at=last.due_at))
        if len(rows) != len({row.tenant_id for row in Reconciliation.objects.all()}):
            return None
        return sum(row.only_here + row.only_at_gateway for row in rows) if rows else None

    def _job(self, entry: PeriodicTask, runs: list[JobRun]) -> Job:
        ran = tuple(sorted(run.due_at for run in runs if entry.task.endswith(f".{run.job}")))
        last = BeatCursor.objects.get(pk=entry.pk).last_due_at
        if entry.name == NAME:
            return Job(() if self._once_at is None else (self._once_at,), ran)
        if last is None or not ran:
            return Job((), ran)
        return Job(grid(ran[0], last, timedelta(seconds=PERIOD)), ran)

    def _leader(self) -> Program | None:
        row = Leader.objects.filter(name="beat", expires_at__gt=timezone.now()).first()
        pid = row.holder.split(":")[1] if row else ""
        return next((beat for beat in self._stage.beats if str(beat.pid) == pid), None)

    def _has_caught_up(self) -> bool:
        late = BeatCursor.objects.filter(next_due_at__lte=timezone.now() - timedelta(seconds=1))
        return self._leader() is not None and not late.exists()
