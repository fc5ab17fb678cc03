"""Sessions for the tests of races."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import pytest

from tests.concurrency.session import Session
from tests.stores.quick import careless_sqlite, emptied_by_delete

__all__ = ["careless_sqlite", "emptied_by_delete"]

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
