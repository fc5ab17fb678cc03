"""What a test reads of failed attempts."""

from __future__ import annotations

from django_idempotent_tasks.models import FailedJob
from django_idempotent_tasks.states import State
from tests.support.till import Counter


def jobs(shop: Counter) -> list[FailedJob]:
    """The failed attempts, in their order."""
    return list(FailedJob.objects.using(shop.alias).order_by("id"))


def told(shop: Counter) -> list[tuple[str, State]]:
    """The class of each failed attempt's error, and where its key went."""
    return [(job.error.rpartition(".")[2], State(job.state)) for job in jobs(shop)]
