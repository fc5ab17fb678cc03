"""Connections of each isolation level, and a rival transaction that meets a statement of the test's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest
from django.db import connections
from psycopg import IsolationLevel

from django_idempotent_tasks.ledger.values import Call
from tests.support.ledger.session import Session
from tests.support.till import Counter

DAY = 24 * 3600
LEVELS = [IsolationLevel.READ_COMMITTED, IsolationLevel.REPEATABLE_READ, IsolationLevel.SERIALIZABLE]
HIGHER = LEVELS[1:]


@pytest.fixture
def isolated(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, postgresql: Counter
) -> Iterator[Counter]:
    """PostgreSQL by connections of this isolation, as ``OPTIONS["isolation_level"]`` makes them."""
    options = {
        **connections.settings["default"].get("OPTIONS", {}),
        "isolation_level": request.param,
        "options": "-c lock_timeout=2000",  # a wait that must not be is a failure, and not for ever
    }
    monkeypatch.setitem(connections.settings["default"], "OPTIONS", options)
    connections["default"].close()
    yield postgresql
    connections["default"].close()


@pytest.fixture
def rival(transactional_db: None) -> Iterator[Session]:  # noqa: ARG001  outlives the session
    session = Session("default")
    yield session
    session.close()


each_level = pytest.mark.parametrize("isolated", LEVELS, indirect=True, ids=lambda level: level.name)
each_higher = pytest.mark.parametrize("isolated", HIGHER, indirect=True, ids=lambda level: level.name)


@contextmanager
def before_first(word: str, act: Callable[[], object]) -> Iterator[list[str]]:
    """Do something just before the first statement that begins with this word; the words of all of them."""
    words: list[str] = []

    def look(execute: Any, sql: str, params: Any, many: Any, context: Any) -> Any:
        words.append(sql.split(maxsplit=1)[0].upper())
        if words[-1] == word and words.count(word) == 1:
            act()
        return execute(sql, params, many, context)

    with connections["default"].execute_wrapper(look):
        yield words


def claims(rival: Session, task: Any, order: int, *, id: str = "R") -> None:  # noqa: A002
    """Let another transaction claim the key atomically, and leave it open."""
    call = Call(task.idempotency_identity((order,)), task.name, id, None)
    rival.begin()
    grant = rival.do(lambda store: store.atomic_new(call, owner="w:2:r", retention=DAY, window=DAY))
    assert grant is not None


def met(rival: Session, word: str) -> AbstractContextManager[list[str]]:
    """The rival commits just before such a statement of ours."""
    return before_first(word, rival.commit)
