"""Every exception of the package. The docstring is the message's meaning and names the remedy."""

from __future__ import annotations

from django.core.exceptions import ImproperlyConfigured


class IdempotencyError(Exception):
    """Base of everything that this package raises."""


class ConfigurationError(IdempotencyError, ImproperlyConfigured):
    """A task option or a setting is wrong. The message says which one and what to write instead."""


class PayloadTooLarge(ConfigurationError):
    """A call is above ``MAX_PAYLOAD`` characters, so that its row could not hold it.

    Store what is large, and pass an id; or raise ``IDEMPOTENT_TASKS["MAX_PAYLOAD"]``.
    """


class InvalidKey(IdempotencyError, ValueError):
    """A key, scope or fingerprint value has no canonical form. The message names the argument.

    Pass a value of an accepted type (an id instead of an object, a finite number, a non-empty
    string); nothing was sent and no row was written.
    """


class KeyReused(IdempotencyError):
    """The same key was used with another payload. No row changed.

    Use a new key for new work, or take the differing argument out of ``fingerprint``.
    """


class KeyMismatch(KeyReused):
    """A message names a key that was accepted for another task or scope. Nothing ran, no row changed.

    No sender of this package makes such a message: find out who else writes to the broker.
    ``task_id`` is the refused call.
    """

    def __init__(self, message: str, *, task_id: str = "") -> None:
        super().__init__(message)
        self.task_id = task_id


class DuplicateTask(IdempotencyError):
    """The key is already taken by another call; raised where ``on_duplicate="raise"``.

    ``reason`` is ``in_progress``, ``already_completed``, ``failed`` or ``in_review``;
    ``task_id`` is the accepted call.
    """

    def __init__(self, message: str, *, reason: str = "", task_id: str = "") -> None:
        super().__init__(message)
        self.reason = reason
        self.task_id = task_id


class StoreDown(IdempotencyError):
    """The ledger's database did not answer. The message was put back on its queue; nothing ran unguarded."""


class LeaseLost(IdempotencyError):
    """This attempt no longer owns its key: its completion or its step was refused, and rolled back.

    Another attempt took over after the lease had run out. Raise ``lease`` when the body holds the
    GIL (or stops the process) for longer than that.
    """


class OuterTransaction(IdempotencyError):
    """A leased task was started inside an open transaction, where its claim would be invisible to others.

    Start it outside ``atomic()``, or send it with ``delay_on_commit()``. ``external()`` raises it where the
    ledger cannot be written beside the transaction that the body has open: nothing has happened then; call
    it outside ``atomic()``. ``step()`` raises it inside a transaction, whose rollback would take its value.
    ``complete()`` raises it where the body has begun a transaction by hand: end that first.
    """


class TransactionLeftOpen(IdempotencyError):
    """The body ended with a transaction open that it had begun by hand: what it wrote there is rolled back.

    Write in ``transaction.atomic()``, or COMMIT what ``BEGIN`` or ``set_autocommit(False)`` began, also
    where an error or a time limit is caught.
    """


class ResultNotStored(IdempotencyError):
    """The key is completed, but its result is not kept (too large, not JSON, or ``store_result=False``)."""


class RecordedError(IdempotencyError):
    """The key ended in failure earlier; this is the recorded error, the body was not run again.

    Redrive the dead letter to run it again under the same key.
    """


class PermanentError(IdempotencyError):
    """Raise it in a task: the work can never succeed as it is. It becomes a dead letter at once."""


class TransientError(IdempotencyError):
    """Raise it in a task: the work may succeed later. It is retried by the task's own retry policy."""


class RecordsLeft(TransientError):
    """Some records of a batch's chunk failed and are to be tried again: the chunk's own retry does so, alone.

    On a dead letter it means that the retries are used up, and that those records are ``retryable`` still.
    Look at the errors of the batch, mend the causes, and redrive the chunk. ``retry_after`` is the longest
    wait in seconds that one of the errors asked for.
    """

    def __init__(self, message: str = "", *, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class ManualReview(IdempotencyError):
    """Raise it in a task: a person has to decide. The key waits in REVIEW."""


class PoisonTask(IdempotencyError):
    """Workers that ran this key died ``max_crashes`` times; the body was not started again.

    Find the cause (memory, a crashing C library), then redrive the dead letter.
    """


class OwnerDied(IdempotencyError):
    """Recorded of an attempt whose worker ended silently, or stood still for a whole lease.

    Never raised. Look into the worker's log and the kernel's (memory) of that time.
    """


class UnreadableError(IdempotencyError, RuntimeError):
    """The body raised an error whose class or methods raise another when they are read: it arrives as this.

    Look into what the task raises: ``__class__``, the class's names, ``__reduce__``.
    """


class TaskMemoryError(IdempotencyError, RuntimeError):
    """The body raised ``MemoryError``. Celery would end the whole worker for it, so it arrives as this."""


class TaskExit(IdempotencyError, RuntimeError):
    """The body called ``sys.exit()``. Celery would take that for a lost worker, so it arrives as this."""
