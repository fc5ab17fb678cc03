"""Stores results in Django's database and counts each part of a chord once, however often it is reported.

``result_backend = "django_idempotent_tasks.results:DatabaseBackend"``. It needs django-celery-results,
also in ``INSTALLED_APPS``, and uses its tables as they are.
"""

from __future__ import annotations

import json
import logging
import random
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NoReturn

from celery import current_task, maybe_signature, states
from celery.exceptions import ChordError, Reject
from celery.result import GroupResult
from django.db import Error as DatabaseError
from django.db import connections, router, transaction
from django.db.models import F, QuerySet
from django_celery_results.backends import DatabaseBackend as StockBackend
from django_celery_results.models import ChordCounter, TaskResult  # type: ignore[attr-defined]  # old stubs

from .messages.blame import Fault, fault_of

logger = logging.getLogger("django_idempotent_tasks")

Counters = QuerySet[ChordCounter]

#: How often the end of a call is tried while the database refuses its transaction.
TRIES = 3
#: How many results one statement reads: SQLite bounds a statement's parameters.
BITE = 500


class DatabaseBackend(StockBackend):  # type: ignore[misc]  # it has no types
    """django-celery-results, with each part of a chord counted once however often it ends.

    The result of a part, its count and the sending of the chord's body are one transaction: a worker
    that dies inside it leaves the part unfinished, so that its message comes back and ends the part again.
    The body may be sent twice then, under the same task id. Where the body cannot be sent, or a result
    cannot be stored, the message of a guarded part goes back to the queue and the chord does not end.
    """

    def mark_as_done(
        self,
        task_id: Any,
        result: Any,
        request: Any = None,
        store_result: bool = True,  # noqa: FBT001, FBT002  Celery's own
        state: str = states.SUCCESS,
    ) -> None:
        """Store a result, and count the call if it is a part of a chord."""
        mark = super().mark_as_done
        _in_one_transaction(request, lambda: mark(task_id, result, request, store_result, state))

    def mark_as_failure(self, task_id: Any, exc: Any, *args: Any, request: Any = None, **kwargs: Any) -> None:
        """Store a failure, and count all that fails with it: the call, and the rest of its chain."""
        mark = super().mark_as_failure
        _in_one_transaction(request, lambda: mark(task_id, exc, *args, request=request, **kwargs))

    def mark_as_revoked(
        self, task_id: Any, reason: Any = "", request: Any = None, *args: Any, **kwargs: Any
    ) -> None:
        """Store that a call was revoked, and count it if it is a part of a chord."""
        mark = super().mark_as_revoked
        _in_one_transaction(request, lambda: mark(task_id, reason, request, *args, **kwargs))

    def apply_chord(self, header_result_args: Any, body: Any, **_kwargs: Any) -> None:  # noqa: ARG002  Celery's
        """Write how many parts a chord waits for; a chord that is sent again keeps its count."""
        header = header_result_args
        if not isinstance(header, GroupResult):
            header = self.app.GroupResult(*header_result_args)
        parts = json.dumps([part.as_tuple() for part in header.results or []])
        waits = {"sub_tasks": parts, "count": len(set(_leaves(header)))}
        ChordCounter.objects.using(_alias()).get_or_create(group_id=header.id, defaults=waits)

    def on_chord_part_return(self, request: Any, state: str, result: Any, **_kwargs: Any) -> None:
        """Count a part that has ended, and send the body after the last part.

        ``count`` is never more than the parts that are still to be reported, so that the true number
        is read only where the count seems to be used up.
        """
        task_id, group_id = request.id, request.group
        if not task_id or not group_id:
            return
        with transaction.atomic(using=_alias()):
            counter = _counter(group_id)
            if request.ignore_result:  # the body needs the result all the same
                self.store_result(task_id, result, state, request=request)
            if not counter.filter(count__gt=1).update(count=F("count") - 1):
                self._end_if_complete(counter, request)

    def _store_result(self, task_id: Any, result: Any, *args: Any, **kwargs: Any) -> Any:
        if not task_id:
            logger.warning("A result without a task id is not stored: nobody could read it")
            return result
        return super()._store_result(task_id, result, *args, **kwargs)

    def _end_if_complete(self, counter: Counters, request: Any) -> None:
        waiting = counter.select_for_update().first()
        if waiting is None:
            logger.debug("%s: its chord has ended", request.id)
            return
        header = waiting.group_result(app=self.app)
        ended = dict(self._ended(_leaves(header)))
        missing = len(set(_leaves(header)) - set(ended))
        if missing:
            counter.update(count=missing)
            return
        self._end_chord(maybe_signature(request.chord, app=self.app), header, ended)
        counter.delete()

    def _ended(self, task_ids: Iterable[str]) -> Iterator[tuple[str, TaskResult]]:
        rows = TaskResult.objects.using(_alias()).filter(status__in=states.READY_STATES)
        wanted = list(dict.fromkeys(task_ids))
        for start in range(0, len(wanted), BITE):
            for row in rows.filter(task_id__in=wanted[start : start + BITE]):
                yield row.task_id, row

    def _end_chord(self, body: Any, header: GroupResult, ended: dict[str, TaskResult]) -> None:
        try:
            values = [self._value(part, ended) for part in header.results or []]
        except ChordError as error:
            self.chord_error_from_stack(body, error)
            return
        try:
            body.delay(values)
        except (DatabaseError, Reject):
            raise
        except Exception as error:
            fault = fault_of(error, self.app.connection_for_write())
            if fault is Fault.BROKER and _runs_guarded():
                _put_back(f"the body of chord {header.id} was not sent: {error!r}", error)
            logger.exception("The body of chord %s was not sent", header.id)
            self.chord_error_from_stack(body, ChordError(f"The body was not sent: {error!r}"))

    def _value(self, part: Any, ended: dict[str, TaskResult]) -> Any:
        """A part's value; a group's values in a list. Raises ChordError for a failed part."""
        if isinstance(part, GroupResult):
            return [self._value(child, ended) for child in part.results or []]
        row = ended[part.id]
        content = self.decode_content(row, row.result)
        if row.status not in states.PROPAGATE_STATES:
            return content
        error = self.exception_to_python(content)
        raise ChordError(f"Part {part.id} ended with {error!r}") from _as_cause(error)


def _alias() -> str:
    """The database for results, also for reads: a replica may not have them yet."""
    return str(router.db_for_write(ChordCounter))


def _counter(group_id: str) -> Counters:
    counters: Counters = ChordCounter.objects.using(_alias()).filter(group_id=group_id)
    return counters


def _leaves(result: Any) -> Iterator[str]:
    """The ids of the calls that a result waits for."""
    if isinstance(result, GroupResult):
        for child in result.results or []:
            yield from _leaves(child)
    else:
        yield str(result.id)


def _chords(request: Any) -> list[str]:
    """The group ids of the chords that count the end of this call."""
    if request is None:
        return []
    found = [request.group] if request.chord else []
    chain = request.chain if isinstance(request.chain, list | tuple) else []
    options = [step.get("options") or {} for step in chain]
    return [*found, *(given.get("group_id") for given in options if "chord" in given)]


def _in_one_transaction(request: Any, write: Callable[[], None]) -> None:
    """Write the end of a chord's part in one transaction, ``TRIES`` times while the database refuses it."""
    groups = _chords(request)
    if not groups:
        return write()
    connection = connections[_alias()]
    for left in reversed(range(TRIES)):
        try:
            with transaction.atomic(using=connection.alias):
                # First a write: on every database it locks the chord before it is read.
                for group_id in groups:
                    _counter(group_id).update(count=F("count"))
                return write()
        except DatabaseError as error:
            if connection.in_atomic_block:
                raise
            connection.close()
            if not left:
                _give_up(request, error)
        time.sleep(random.uniform(0.05, 0.2))
    return None


def _give_up(request: Any, error: DatabaseError) -> NoReturn:
    if _runs_guarded():
        _put_back(f"the end of {request.id} was not stored: {error!r}", error)
    raise error


def _runs_guarded() -> bool:
    """Whether a guarded task runs here: delivered again, it ends the same without another run."""
    task: Any = current_task
    return bool(task) and hasattr(task, "idempotency_policy") and not task.request.is_eager


def _put_back(problem: str, error: Exception) -> NoReturn:
    logger.error("%s; the message goes back to the queue", problem)
    time.sleep(random.uniform(0.2, 1.0))
    raise Reject(problem, requeue=True) from error


def _as_cause(error: Any) -> BaseException | None:
    return error if isinstance(error, BaseException) else None
