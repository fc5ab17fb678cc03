"""What has to be true of an atomic key in the end, whatever happened to its runs."""

from __future__ import annotations

from typing import Any

from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.states import State
from tests.support.waiting import eventually
from tests.support.workers.site import Site


def done_once(site: Site, key: str, *, starts: int, crashes: int, within: float = 30.0) -> IdempotencyKey:
    """Succeeded by its last start, with the one effect of that; all is acknowledged, nothing kept to send."""
    row = site.rows.wait_for(key, State.SUCCEEDED, within=within)
    site.broker.wait_until_empty()
    assert [effect.token for effect in site.rows.effects(key)] == [row.token]
    assert (site.journal.starts(key), row.crashes) == (starts, crashes)
    assert row.message is None
    return row


def undone(site: Site, key: str, state: State, *, starts: int, crashes: int = 0) -> IdempotencyKey:
    """Ended without an effect; every message is acknowledged."""
    row = site.rows.wait_for(key, state)
    site.broker.wait_until_empty()
    assert site.rows.effects(key) == []
    assert (site.journal.starts(key), row.crashes) == (starts, crashes)
    return row


def next_start(site: Site, key: str, *, number: int = 2, died: bool) -> dict[str, Any]:
    """Wait until the body begins again, with the same work."""
    before, after = (site.journal.wait_for("started", key, count=count) for count in (number - 1, number))
    assert after["previous_attempt_died"] is died
    assert (after["task_id"], after["downstream"]) == (before["task_id"], before["downstream"])
    return after


def visitor(site: Site, key: str, *, number: int = 1) -> int:
    """Wait until this start of a body is at its gate; the child that runs it."""
    eventually((site.directory / f"{key}.{number}.visited").exists, f"start {number} of {key} waits")
    return int(site.journal.wait_for("started", key, count=number)["pid"])
