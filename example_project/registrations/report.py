"""What has become of an upload: counts by outcome, payments and badges, and the rows that failed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

from django_idempotent_tasks import Batch, Category, get_batch

from .models import Badge, Registration, Upload

#: Until the last chunk of an upload is written it has no batch to ask.
RECEIVING = "being received"
#: States that end by themselves.
LIVE = frozenset({RECEIVING, "submitting", "running"})
#: Errors on the page; all of them are in the CSV.
SHOWN = 20
#: What each category asks of the organiser.
WORDS = {"fatal": "to mend", "retryable": "to try again", "manual_review": "to look at"}


@dataclass(frozen=True, slots=True)
class Report:
    """Counts of one moment. ``ok`` rows are registrations."""

    state: str
    total: int
    ok: int = 0
    fatal: int = 0
    retryable: int = 0
    manual_review: int = 0
    paid: int = 0
    printed: int = 0

    @property
    def words(self) -> str:
        """The state for people."""
        return self.state.replace("_", " ")

    @property
    def done(self) -> int:
        """Rows with an outcome that does not change by itself."""
        return self.ok + self.fatal + self.manual_review

    @property
    def waiting(self) -> int:
        """Rows without an outcome."""
        return self.total - self.done - self.retryable

    @property
    def failed(self) -> int:
        """Rows to mend, to look at, or to try again."""
        return self.fatal + self.retryable + self.manual_review

    @property
    def is_live(self) -> bool:
        """Whether it will change soon, by itself."""
        return self.state in LIVE or self.printed < self.paid

    def document(self) -> dict[str, object]:
        """For JSON clients."""
        more = {"words": self.words, "done": self.done, "waiting": self.waiting, "is_live": self.is_live}
        return {**asdict(self), **more}


@dataclass(frozen=True, slots=True)
class Failed:
    """A row that did not become a registration; ``value`` is the row as it was read."""

    value: Mapping[str, Any]
    category: str
    why: str

    @property
    def words(self) -> str:
        """What the category asks for."""
        return WORDS[self.category]


def batch_of(upload: Upload) -> Batch | None:
    """The upload's batch; None while its rows are being received."""
    return None if upload.batch is None else get_batch(upload.batch)


def report_of(upload: Upload) -> Report:
    """Count now."""
    batch = batch_of(upload)
    if batch is None:
        return Report(RECEIVING, upload.rows)
    counts = batch.counts
    registered = Registration.objects.filter(upload=upload)
    return Report(
        state=batch.state,
        total=upload.rows,
        ok=counts["ok"],
        fatal=counts["fatal"],
        retryable=counts["retryable"],
        manual_review=counts["manual_review"],
        paid=registered.filter(paid_at__isnull=False).count(),
        printed=Badge.objects.filter(registration__upload=upload).count(),
    )


def failed_rows(upload: Upload) -> Iterator[Failed]:
    """The rows that did not become registrations, in their order."""
    batch = batch_of(upload)
    for error in () if batch is None else batch.errors():
        value = json.loads(error.value or "{}")
        yield Failed(value, Category(error.category).name.lower(), error.description)


def first_failed(upload: Upload) -> list[Failed]:
    """The first of them, for the page."""
    return list(islice(failed_rows(upload), SHOWN))
