"""The tables. The stores write their rows, one statement a transition: read rows, never save them."""

from __future__ import annotations

from django.apps import apps

from ..exceptions import ConfigurationError

if apps.apps_ready and not apps.is_installed("django_idempotent_tasks"):
    raise ConfigurationError(
        "Add 'django_idempotent_tasks' to INSTALLED_APPS and run 'manage.py migrate': the keys of guarded"
        " tasks are rows of its tables."
    )

from .batches import Batch, BatchChunk, BatchRecord, BatchState, ChunkState
from .beat import BeatCursor
from .duplicates import DuplicateAttempt
from .failures import DEAD, DeadLetter, FailedJob, StateAmong
from .follow_ups import FollowUp
from .hourly import BOUNDS, COUNTED, Dashboard, HourlyCount
from .leader import BEAT, SWEEPER, SWEPT, Leader
from .ledger import AnsweredCall, IdempotencyKey
from .operations import OperationState, RedriveOperation
from .pauses import Pause
from .steps import Step
from .workers import WORKER_SILENT_AFTER, Worker

__all__ = [
    "BEAT",
    "BOUNDS",
    "COUNTED",
    "DEAD",
    "SWEEPER",
    "SWEPT",
    "WORKER_SILENT_AFTER",
    "AnsweredCall",
    "Batch",
    "BatchChunk",
    "BatchRecord",
    "BatchState",
    "BeatCursor",
    "ChunkState",
    "Dashboard",
    "DeadLetter",
    "DuplicateAttempt",
    "FailedJob",
    "FollowUp",
    "HourlyCount",
    "IdempotencyKey",
    "Leader",
    "OperationState",
    "Pause",
    "RedriveOperation",
    "StateAmong",
    "Step",
    "Worker",
]
