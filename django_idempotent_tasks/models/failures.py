"""The table of failed attempts, and the keys that ended with a failure and wait for a person."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import models
from django.db.models import Q

from ..states import EXPECTED_FROM, State
from .fields import MomentField
from .ledger import STATES, IdempotencyKey

#: States of a key that waits for a person.
DEAD = (State.REVIEW, State.FAILED)


class FailedJob(models.Model):
    """One failed attempt, also of a call that is retried; ``state`` is the state that its key moved to.

    A plain Celery task (``CAPTURE_ALL_FAILURES``) has no key: ``digest`` and ``key_text`` are empty,
    ``token`` counts the reruns, and ``message`` has the call with its real arguments. No foreign key: the
    row outlives its key.
    """

    id = models.BigAutoField(primary_key=True)
    digest = models.UUIDField(null=True, editable=False)
    token = models.IntegerField(null=True)
    at = MomentField()
    started_at = MomentField(null=True)  # of a leased run whose beginning is known
    attempt = models.SmallIntegerField()
    state = models.SmallIntegerField(choices=STATES)
    category = models.SmallIntegerField()
    signature = models.CharField(max_length=16)
    task = models.CharField(max_length=255)
    scope = models.CharField(max_length=120, null=True)  # noqa: DJ001  None and "" are two scopes
    key_text = models.CharField("key", max_length=255, null=True)  # noqa: DJ001  a plain task has none
    task_id = models.CharField(max_length=255)
    worker = models.CharField(max_length=255)
    error = models.CharField(max_length=255)
    description = models.TextField()
    traceback = models.TextField()
    message = models.TextField(null=True)  # noqa: DJ001  a guarded task's message is in the row of its key

    class Meta:
        verbose_name = "failed job"
        indexes: ClassVar = [
            models.Index(fields=["digest", "id"], name="idem_failed_digest"),
            models.Index(fields=["signature", "at"], name="idem_failed_signature"),
            models.Index(fields=["task_id"], name="idem_failed_task_id"),
            models.Index(fields=["at"], name="idem_failed_at"),
        ]
        permissions: ClassVar = [
            ("view_payload", "Can see arguments and results of tasks"),
            ("view_traceback", "Can see tracebacks of tasks"),
            ("rerun_failedjob", "Can run a failed job again"),
        ]

    def __str__(self) -> str:
        return f"{self.task} {self.task_id}: {self.error}"


class StateAmong(models.Func):
    """Whether a key's state is one of these, beside conditions that the index of dead letters answers.

    PostgreSQL takes conditions for independent of each other. Beside that index a state makes it expect a
    few rows where there are all, so that it reads and sorts all of them for the first few. Here neither
    statistics nor an index answer for the state. On MySQL and MariaDB, which have no index of dead letters,
    the index of the state does.
    """

    template = "COALESCE(%(expressions)s, 0) NOT IN (%(others)s)"

    def __init__(self, *states: int) -> None:
        others = ", ".join(str(int(state)) for state in State if state not in states)
        among = ", ".join(str(int(state)) for state in states)
        super().__init__(models.F("state"), output_field=models.BooleanField(), among=among, others=others)

    def as_mysql(self, compiler: Any, connection: Any, **context: Any) -> Any:
        """The condition by the index of the state."""
        return self.as_sql(compiler, connection, template="%(expressions)s IN (%(among)s)", **context)


class DeadLetterManager(models.Manager["DeadLetter"]):
    """Keys in FAILED or REVIEW that wait for a person: nobody has discarded them, and no end is expected."""

    def get_queryset(self) -> models.QuerySet[DeadLetter]:
        # The condition on the signature lets the database use the partial index of dead letters.
        return super().get_queryset().filter(_IS_DEAD_LETTER)


class UndecidedManager(models.Manager["DeadLetter"]):
    """Dead letters, and expected ends, which wait for nobody and may be redriven all the same."""

    def get_queryset(self) -> models.QuerySet[DeadLetter]:
        return super().get_queryset().filter(_IS_UNDECIDED)


_IS_UNDECIDED = Q(StateAmong(*DEAD), signature__isnull=False, discarded_at__isnull=True)
# No column is asked twice: the range leaves out what has no signature.
_IS_DEAD_LETTER = Q(StateAmong(*DEAD), signature__lt=EXPECTED_FROM, discarded_at__isnull=True)


class DeadLetter(IdempotencyKey):
    """A key that failed for good, or whose end is in doubt; redrive, resolve or discard it."""

    objects: ClassVar[DeadLetterManager] = DeadLetterManager()
    undecided: ClassVar[UndecidedManager] = UndecidedManager()

    class Meta:
        proxy = True
        verbose_name = "dead letter"
        permissions: ClassVar = [
            ("redrive_deadletter", "Can redrive dead letters"),
            ("resolve_review", "Can decide on keys in review"),
            ("discard_deadletter", "Can discard dead letters"),
            ("edit_arguments", "Can change the arguments of a redrive"),
        ]
