"""Builds the message of an occurrence with the headers that instruments add when beat sends it.

Instruments know beat by ``Scheduler.apply_entry``: around it Sentry opens a trace and a check-in, and leaves
their ids in the entry's headers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..ledger.stores import LedgerStore
from ..messages.message import HEADER, unsubscribed
from ..messages.stamping import Passage
from .entry import CursorEntry
from .occurrence import Occurrence

#: ``Scheduler.apply_entry``, or what sends an entry like it: for an entry and a producer.
Apply = Callable[[Any, Any], Any]


class BrokenTransaction(Exception):
    """Code that stamped an occurrence has ended or broken the transaction in which beat writes it."""

    def __init__(self, entry: CursorEntry, problem: str) -> None:
        super().__init__(problem)
        self.entry = entry


def stamped(entry: CursorEntry, each: Occurrence, apply: Apply, store: LedgerStore) -> Occurrence:
    """The occurrence as ``apply`` would publish it. Raises ConfigurationError where it publishes nothing.

    Receivers and the project's classes run in the open transaction of ``store``: raises
    :class:`BrokenTransaction` where they leave it in no state to be committed.
    """
    if entry.app.conf.task_always_eager:  # Celery would run the task here
        return each
    passage = Passage(entry.app, entry.task, str(each.message.options["task_id"]))
    headers = dict(each.message.options["headers"])
    options = {**each.message.options, **passage.options, "headers": headers}
    del options["producer"]  # the producer is an argument of apply
    try:
        with unsubscribed(entry.app.backend):
            apply(_with(entry, options), passage)
    except Exception:
        _raise_if_broken(store, entry)
        raise
    _raise_if_broken(store, entry)
    message = passage.message.with_header(headers[HEADER])
    return replace(each, call=replace(each.call, message=message.text_or_raise()), message=message)


def _raise_if_broken(store: LedgerStore, entry: CursorEntry) -> None:
    problem = store.transaction_problem()
    if problem is not None:
        raise BrokenTransaction(entry, problem)


def send(entry: Any, producer: Any) -> None:
    """Send an entry as ``Scheduler.apply_async`` does, where no scheduler is: a person asked for it."""
    task = entry.app.tasks.get(entry.task)
    if task is None:
        entry.app.send_task(entry.task, entry.args, entry.kwargs, producer=producer, **entry.options)
    else:
        task.apply_async(entry.args, entry.kwargs, producer=producer, **entry.options)


def _with(entry: CursorEntry, options: dict[str, Any]) -> CursorEntry:
    """The entry with the options of one occurrence, which instruments change in place."""
    copy: CursorEntry = object.__new__(type(entry))
    copy.__dict__.update(vars(entry), options=options)
    return copy
