"""Lists what failed of a batch: by error, or record by record."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID

from django.db.models import Count, Max, QuerySet

from ..models import BatchRecord
from ..states import Category

#: Records that one query reads: each may be large.
PAGE = 200


@dataclass(frozen=True, slots=True)
class Errors:
    """The records of a batch that failed alike; ``last`` is the one that failed last."""

    category: Category
    signature: str
    count: int
    last: BatchRecord

    def facts(self) -> dict[str, object]:
        """For JSON."""
        return {
            "category": self.category.name.lower(),
            "signature": self.signature,
            "count": self.count,
            "error": self.last.error,
            "example": self.last.index,
            "newest": self.last.at,
        }


def by_signature(alias: str, batch: UUID, limit: int) -> list[Errors]:
    """The most frequent errors of a batch. Two statements, by an index of the batch's failed records."""
    grouped = failed(alias, batch).order_by().values("category", "signature")
    counted = grouped.annotate(count=Count("id"), last=Max("id")).order_by("-count", "category", "signature")
    rows = list(counted[:limit])
    found = BatchRecord.objects.using(alias).defer("value").in_bulk([row["last"] for row in rows])
    return [
        Errors(Category(row["category"]), row["signature"], row["count"], found[row["last"]])
        for row in rows
        if row["last"] in found  # its record may have been redriven meanwhile
    ]


def failed(
    alias: str, batch: UUID, *, category: Category | None = None, signature: str | None = None
) -> QuerySet[BatchRecord]:
    """The records of a batch that did not end ok."""
    given = {"category": category, "signature": signature}
    rows = BatchRecord.objects.using(alias).filter(batch_id=batch)
    return rows.filter(**{name: value for name, value in given.items() if value is not None})


def in_order(rows: QuerySet[BatchRecord], *, values: bool) -> Iterator[BatchRecord]:
    """These records by their index, a page at a time: memory is bounded. Values only on demand."""
    rows, after = (rows if values else rows.defer("value")).order_by("index"), -1
    while page := list(rows.filter(index__gt=after)[:PAGE]):
        yield from page
        after = page[-1].index


def record_facts(row: BatchRecord) -> dict[str, object]:
    """The facts of a failed record, without the record itself."""
    return {
        "index": row.index,
        "category": Category(row.category).name.lower(),
        "error": row.error,
        "signature": row.signature,
        "attempt": row.attempt,
        "at": row.at,
        "description": row.description,
    }
