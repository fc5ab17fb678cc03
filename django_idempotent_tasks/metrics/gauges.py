"""Reads the gauges from the ledger, when somebody asks: a fixed number of bounded statements."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass

from django.db import Error as DatabaseError

from ..conf import settings
from ..ledger.moments import database_now, exact
from ..ledger.stores import LedgerStore, get_store
from ..models import BEAT, DEAD, SWEEPER
from ..operations.counts import total
from ..operations.findings import findings
from ..operations.health.relay import oldest_unsent
from ..operations.health.sweeper import last_sweep
from ..operations.status import Status, look
from ..states import PRUNED, Category, State
from . import instruments as names
from .instruments import Instrument

logger = logging.getLogger("django_idempotent_tasks")


@dataclass(frozen=True, slots=True)
class Sample:
    """One value of a gauge; ``labels`` are in the order of the instrument's."""

    instrument: Instrument
    value: float
    labels: tuple[str, ...] = ()


def samples() -> list[Sample]:
    """All gauges as they are now. With a ledger that does not answer: only that it is not up."""
    try:
        store = get_store(settings().database)
        return [Sample(names.UP, 1), *_of(look(store)), *_ages(store)]
    except DatabaseError as error:
        logger.warning("The gauges were not read: the ledger's database did not answer (%s)", error)
        return [Sample(names.UP, 0)]


def _of(seen: Status) -> Iterator[Sample]:
    for state in State:
        yield Sample(names.KEYS, seen.count(state).number, (state.name.lower(),))
    for state in (State.PENDING, State.RETRY, State.RUNNING):
        yield Sample(names.OVERDUE, seen.count(state, "stuck").number, (state.name.lower(),))
    yield Sample(names.PENDING_AGE, _age(seen, State.PENDING))
    for category in (each for each in Category if each is not Category.EXPECTED):  # which waits for nobody
        number = total(*(seen.count(state, category.name) for state in DEAD)).number
        yield Sample(names.LETTERS, number, (category.name.lower(),))
    yield Sample(names.LETTER_AGE, max(_age(seen, state) for state in DEAD))
    yield Sample(names.LEADER, int(seen.is_led), (SWEEPER,))
    if seen.beat is not None and seen.beat.leader is not None:
        yield Sample(names.LEADER, int(seen.beat.is_led), (BEAT,))
    yield Sample(names.PRUNE, total(*(seen.count(state, "past") for state in PRUNED)).number)
    for finding in findings(seen):
        yield Sample(names.FINDINGS, finding.count.number, (finding.name,))
    yield Sample(names.PAUSES, sum(each.is_active for each in seen.pauses))
    yield Sample(names.HELD, sum(each.held.number for each in seen.pauses))


def _age(seen: Status, state: State) -> float:
    """The seconds since the oldest moment that was read of a state; 0 for none."""
    oldest = seen.states[state]["oldest"]
    return 0.0 if oldest is None else max((exact(seen.now) - exact(oldest)).total_seconds(), 0.0)


def _ages(store: LedgerStore) -> Iterator[Sample]:
    yield Sample(names.LAG, oldest_unsent(store)[0] or 0.0)
    swept = last_sweep(store, database_now(store))
    if swept is not None:
        yield Sample(names.SWEPT_AGE, swept)
