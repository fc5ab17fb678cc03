"""Counts rows by reading a bounded number of index entries; a count says if there are more."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Count as Counted
from django.db.models import Min, Q, QuerySet

from ..models import (
    AnsweredCall,
    Batch,
    BatchChunk,
    BatchRecord,
    DeadLetter,
    DuplicateAttempt,
    FailedJob,
    HourlyCount,
    IdempotencyKey,
    OperationState,
    RedriveOperation,
    StateAmong,
    Worker,
)
from ..states import EXPECTED_FROM, Category, State

#: The categories of dead letters: an expected end waits for nobody.
TO_DECIDE = (Category.FATAL, Category.RETRYABLE, Category.MANUAL_REVIEW)
#: Rows that one count looks at.
CAP = 10_000


@dataclass(frozen=True, slots=True)
class Count:
    """A number of rows; with ``is_bound`` there are at least so many."""

    number: int
    is_bound: bool = False

    def __str__(self) -> str:
        return f"at least {self.number:,}" if self.is_bound else f"{self.number:,}"

    def facts(self) -> dict[str, object]:
        """For JSON."""
        return {"count": self.number, "at_least": self.is_bound}


def capped(number: int) -> Count:
    """The count of ``number`` rows, of which a query has read ``CAP + 1`` at most."""
    return Count(min(number, CAP), number > CAP)


def total(*counts: Count) -> Count:
    """The sum of counts: a bound where one of them is."""
    return Count(sum(each.number for each in counts), any(each.is_bound for each in counts))


def of_state(alias: str, state: State) -> QuerySet[IdempotencyKey]:
    """The keys of a state that one count reads, the first due first, by the sweeper's index."""
    keys = IdempotencyKey.objects.using(alias).filter(state=state)
    return keys.order_by("due_at")[: CAP + 1]


def failed_for_good(alias: str) -> dict[str, Any]:
    """The numbers of dead letters in FAILED: in all, by category, the oldest.

    They are read from their own index: expected ends, which may be many, do not hide them.
    """
    found = DeadLetter.objects.using(alias).filter(StateAmong(State.FAILED))
    return found.order_by("signature", "finished_at")[: CAP + 1].aggregate(**dead_letter_numbers())


def expected_ends(alias: str) -> int:
    """How many keys ended with an error that their task expects, and nobody discarded: by their index."""
    found = DeadLetter.undecided.using(alias).filter(signature__gte=EXPECTED_FROM)
    return found.values("signature")[: CAP + 1].count()


def dead_letter_numbers() -> dict[str, Any]:
    """The aggregates over FAILED or REVIEW keys that nobody discarded: in all, by category, the oldest."""
    kept = Q(discarded_at__isnull=True)
    numbers = {each.name: Counted("state", filter=kept & Q(category=each)) for each in TO_DECIDE}
    return numbers | {"kept": Counted("state", filter=kept), "oldest": Min("finished_at", filter=kept)}


def past_their_time(alias: str, state: State, now: datetime) -> Count:
    """Finished keys of a state that the next prune deletes."""
    return _count(IdempotencyKey.objects.using(alias).filter(state=state, due_at__lte=now).order_by("due_at"))


def answered_past_their_time(alias: str, now: datetime) -> Count:
    """Answers of replaced calls that the next prune deletes."""
    return _count(AnsweredCall.objects.using(alias).filter(due_at__lte=now).order_by("due_at"))


def failed_jobs_past_their_time(alias: str, before: datetime) -> Count:
    """Failed jobs that the next prune deletes."""
    old = FailedJob.objects.using(alias).filter(at__lte=before).order_by("at")
    return capped(old.values("at")[: CAP + 1].count())


def duplicates_past_their_time(alias: str, before: datetime) -> Count:
    """Summed duplicate attempts that the next prune deletes: ids grow with time, the oldest come first."""
    oldest = DuplicateAttempt.objects.using(alias).filter(summed=True).order_by("id")[: CAP + 1]
    moments = list(oldest.values_list("at", flat=True))
    return Count(sum(at <= before for at in moments[:CAP]), len(moments) > CAP and moments[CAP] <= before)


def redrives_past_their_time(alias: str, before: datetime) -> Count:
    """Redrive operations that the next prune deletes."""
    ended = RedriveOperation.objects.using(alias).exclude(state=OperationState.RUNNING)
    return capped(ended.filter(finished_at__lte=before).values("id")[: CAP + 1].count())


def batches_past_their_time(alias: str, now: datetime) -> Count:
    """Batches, chunks and failed records that the next prune deletes."""
    past = Batch.objects.using(alias).filter(due_at__lte=now).order_by("due_at")
    beside = {"batch_id__in": Batch.objects.using(alias).filter(due_at__lte=now).values("id")}
    rows = (model.objects.using(alias).filter(**beside) for model in (BatchChunk, BatchRecord))
    return total(_count(past), *(capped(each.values("batch_id")[: CAP + 1].count()) for each in rows))


def hourly_past_their_time(alias: str, before: datetime) -> Count:
    """Hourly counts that the next prune deletes."""
    old = HourlyCount.objects.using(alias).filter(hour__lte=before).order_by("hour")
    return capped(old.values("hour")[: CAP + 1].count())


def workers_past_their_time(alias: str, before: datetime) -> Count:
    """Workers that the next prune deletes."""
    silent = Worker.objects.using(alias).filter(seen_at__lte=before)
    return capped(silent.values("instance")[: CAP + 1].count())


def _count(rows: QuerySet[Any]) -> Count:
    # Only columns of the index, so that the database does not read the table itself.
    return capped(rows.values("due_at")[: CAP + 1].count())
