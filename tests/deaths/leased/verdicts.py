"""What has to be true of a key in the end, whatever happened to its workers."""

from __future__ import annotations

from typing import Any

from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.states import State
from tests.support.workers.site import Site


def done_once(
    site: Site, key: str, *, attempts: int, crashes: int, within: float = 30.0, under: str = ""
) -> IdempotencyKey:
    """Completed by its last attempt, with one effect, all acknowledged; ``under`` is the effect's key."""
    row = site.rows.wait_for(key, State.SUCCEEDED, within=within)
    site.broker.wait_until_empty()
    assert (row.attempts, row.crashes) == (attempts, crashes)
    assert [effect.attempt for effect in site.rows.effects(under or key)] == [attempts]
    assert [effect.token for effect in site.rows.effects(under or key)] == [row.token]
    return row


def failed_once(site: Site, key: str, *, attempts: int, crashes: int, error: str) -> IdempotencyKey:
    """Failed for good with this error recorded, without an effect; every message is acknowledged."""
    row = site.rows.wait_for(key, State.FAILED)
    site.broker.wait_until_empty()
    assert (row.attempts, row.crashes) == (attempts, crashes)
    assert error in (row.result or "")
    assert site.rows.effects(key) == []
    return row


def next_attempt(site: Site, key: str, *, attempt: int = 2, died: bool) -> dict[str, Any]:
    """Wait for an attempt that goes on with the same work under a higher token."""
    before, after = (site.journal.started(key, attempt=number) for number in (attempt - 1, attempt))
    assert after["previous_attempt_died"] is died
    assert after["token"] > before["token"]
    assert (after["task_id"], after["downstream"]) == (before["task_id"], before["downstream"])
    return after
