"""Sends the failed call of a plain Celery task again, once for each failed job: no key guards it."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from uuid import uuid4

from celery import Celery

from ..identity.text import harmless
from ..ledger.stores import LedgerStore
from ..messages.message import Message
from ..messages.relay import bounded_connection, collapse
from ..models import FailedJob
from ..states import State

logger = logging.getLogger("django_idempotent_tasks")

#: Options that tied the failed call to others: who waited for it has got its failure.
_TIES = frozenset(
    {
        "task_id",
        "retries",
        "expires",
        "root_id",
        "parent_id",
        "group_id",
        "group_index",
        "chord",
        "reply_to",
        "replaced_task_nesting",
    }
)


@dataclass(frozen=True, slots=True)
class Rerun:
    """The new call's id; ``problem`` says why nothing was sent and what to do instead."""

    task_id: str = ""
    problem: str = ""


def rerun(app: Celery, store: LedgerStore, job: FailedJob, *, by: str, reason: str = "") -> Rerun:
    """Send the call of a failed plain task, as ``job`` was read, under a new task id.

    Of two people who rerun a job at the same time, one is refused. The rest of the call's chain follows;
    a group or chord that the call was part of has ended and does not count it.
    """
    message = _anew(job)
    if isinstance(message, str):
        return Rerun(problem=message)
    rows = FailedJob.objects.using(store.connection.alias).filter(pk=job.pk, digest__isnull=True)
    # The token counts the reruns: the state alone would let two people rerun a rerun job again.
    seen = (
        rows.filter(state=job.state, token__isnull=True)
        if job.token is None
        else rows.filter(state=job.state, token=job.token)
    )
    if not seen.update(state=State.PENDING, token=(job.token or 0) + 1):
        return Rerun(problem="somebody else has just rerun this job, or the sweeper pruned it: look again")
    try:
        _publish(app, message)
    except Exception as error:  # noqa: BLE001  every transport has its own errors
        rows.update(state=job.state)
        return Rerun(problem=f"the broker did not take the message ({error!r}): try again")
    task_id = str(message.options["task_id"])
    why = harmless(reason or "no reason given")
    logger.warning(
        "%s reran failed job %d of %s as %s: %s", harmless(by), job.pk, harmless(job.task), task_id, why
    )
    return Rerun(task_id=task_id)


def _anew(job: FailedJob) -> Message | str:
    """The job's message as a new call sends it, or why it cannot be sent."""
    if job.digest is not None:
        return "its task has a key: redrive the dead letter"
    if job.message is None:
        return "the call's message is not stored (its arguments are not JSON, or above MAX_PAYLOAD)"
    try:
        message = Message.decode(job.task, job.message)
    except ValueError as error:
        return str(error)
    kept = {name: value for name, value in message.options.items() if name not in _TIES}
    return replace(message, options=kept | {"task_id": str(uuid4())})


def _publish(app: Celery, message: Message) -> None:
    connection = bounded_connection(app)
    try:
        connection.ensure_connection(max_retries=1, interval_start=0, timeout=2)
        message.publish(app, connection=connection)
    finally:
        collapse(connection)
