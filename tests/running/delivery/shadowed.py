"""Tasks in shadow mode, and what is told and noted of their calls."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from django_idempotent_tasks import signals
from django_idempotent_tasks.models import DuplicateAttempt
from django_idempotent_tasks.running import shadow

SHADOW: dict[str, Any] = {"enforce": False, "mode": "leased"}


@pytest.fixture
def told() -> Iterator[list[str]]:
    """The reasons that ``would_refuse`` has named."""
    reasons: list[str] = []

    def note(reason: str, **_kwargs: object) -> None:
        reasons.append(reason)

    signals.would_refuse.connect(note)
    yield reasons
    signals.would_refuse.disconnect(note)
    shadow._rests_until = 0.0


def places(alias: str) -> list[tuple[str, str]]:
    """Where calls were noted, and why."""
    rows = DuplicateAttempt.objects.using(alias).order_by("id")
    return list(rows.values_list("place", "reason"))
