"""The tables. The stores write their rows, one statement a transition: read rows, never save them."""

from __future__ import annotations

from django.apps import apps

from ..exceptions import ConfigurationError

if apps.apps_ready and not apps.is_installed("django_idempotent_tasks"):
    raise ConfigurationError(
        "Add 'django_idempotent_tasks' to INSTALLED_APPS and run 'manage.py migrate': the keys of guarded"
        " tasks are rows of its tables."
    )

from .beat import BeatCursor
from .duplicates import DuplicateAttempt
from .failures import DEAD, DeadLetter, FailedJob
from .hourly import COUNTED, Dashboard, HourlyCount
from .leader import BEAT, SWEEPER, Leader
from .ledger import AnsweredCall, IdempotencyKey
from .operations import OperationState, RedriveOperation
from .steps import Step

__all__ = [
    "BEAT",
    "COUNTED",
    "DEAD",
    "SWEEPER",
    "AnsweredCall",
    "BeatCursor",
    "Dashboard",
    "DeadLetter",
    "DuplicateAttempt",
    "FailedJob",
    "HourlyCount",
    "IdempotencyKey",
    "Leader",
    "OperationState",
    "RedriveOperation",
    "Step",
]
