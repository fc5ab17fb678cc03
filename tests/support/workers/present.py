"""What workers say about themselves in the ledger."""

from __future__ import annotations

from collections.abc import Callable

from django_idempotent_tasks.models import Worker as Row
from tests.support.waiting import eventually
from tests.support.workers.processes import Worker
from tests.support.workers.site import Site


def present(site: Site, worker: Worker, *, that: Callable[[Row], bool] = bool, within: float = 30.0) -> Row:
    """The row of a worker, once it is written and ``that`` holds."""

    def look() -> Row | None:
        rows = Row.objects.using(site.rows.alias).filter(pid=worker.process.pid)
        row = rows.filter(name=f"{worker.name}@tests").order_by("-started_at").first()
        return row if row is not None and that(row) else None

    return eventually(look, f"{worker.name} says so of itself", within=within)
