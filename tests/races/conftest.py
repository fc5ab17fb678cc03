"""Sessions for the tests of races."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import pytest

from tests.support.ledger.quick import careless_sqlite
from tests.support.ledger.session import Session

__all__ = ["careless_sqlite"]

OpenSession = Callable[[str], Session]


@pytest.fixture
def open_session(transactional_db: None) -> Iterator[OpenSession]:  # noqa: ARG001  outlives the sessions
    with ExitStack() as opened:
        yield lambda alias: opened.enter_context(closing(Session(alias)))


@pytest.fixture
def one(open_session: OpenSession) -> Session:
    return open_session("default")


@pytest.fixture
def two(open_session: OpenSession) -> Session:
    return open_session("default")
