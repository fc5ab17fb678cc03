"""Says which page of the documentation is for a finding: from what one sees to the cure."""

from __future__ import annotations

_QUEUE, _BEAT, _IMPORT = "incidents/queue-without-worker.md", "incidents/beat.md", "how-to/import.md"
_PAGES = {
    "expired_leases": "incidents/stuck-key.md",
    "queue_not_consumed": _QUEUE,
    "no_worker": _QUEUE,
    "pending_overdue": _QUEUE,
    "retry_overdue": _QUEUE,
    "task_not_known": "incidents/unknown-task.md",
    "failed": "incidents/many-dead-letters.md",
    "review": "incidents/in-review.md",
    "no_leader": "incidents/no-sweeper.md",
    "sweeper_idle": "incidents/no-sweeper.md",
    "prune_behind": "incidents/upkeep-behind.md",
    "identity_refused": "incidents/refused-identity.md",
    "beat_no_leader": _BEAT,
    "beat_overdue": _BEAT,
    "beat_unreadable": _BEAT,
    "beat_stranger": _BEAT,
    "batches_attention": _IMPORT,
    "batches_unsealed": _IMPORT,
    "missing_constraint": "reference/checks.md",
}


def page_of(finding: str) -> str:
    """The page for the finding of this name, as the links of the doctor name pages."""
    return f"docs/{_PAGES.get(finding, 'incidents/index.md')}"
