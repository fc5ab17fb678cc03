"""What the tests of beat share."""

from __future__ import annotations

import pytest

pytest.importorskip("django_celery_beat")

from django_idempotent_tasks import schedulers
from django_idempotent_tasks.messages.relay import relay
from tests.beat.bench import Bench


@pytest.fixture
def bench(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> Bench:  # noqa: ARG001  beat commits
    """Beats on an empty database and a queue of their own, whose ticks do all that is due however slowly."""
    monkeypatch.setattr(schedulers, "LONGEST_TICK", 600.0)
    relay.forget()
    return Bench()
