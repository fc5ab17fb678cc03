"""The ledger in the database ``mysql``, where MYSQL_URL names one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.support.deliveries import watching
from tests.support.till import Counter, Till

if TYPE_CHECKING:
    from pytest_django import Settings

__all__ = ["watching"]

ALIAS = "mysql"

#: Tests of another database's ways, and what is not promised on MariaDB and MySQL, with the reason.
ELSEWHERE = {
    "test_sqlite_itself_goes_on_after_a_statement_that_failed": "of SQLite",
    "test_where_one_writer_has_the_whole_database_the_failure_itself_is_still_told": "of SQLite",
    "test_a_signal_at_any_line[True-soft time limit]": "the server takes its time to end a closed connection",
    "test_a_signal_at_any_line[False-soft time limit]": "the same",
    "test_complete_is_refused_where_nobody_would_commit_it[begin]": "atomic() commits a BEGIN by hand there",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip them, aloud."""
    for item in items:
        if item.path.name == "test_atomic_promises.py":
            name = item.name if item.name in ELSEWHERE else item.name.partition("[")[0]
            if name in ELSEWHERE:
                item.add_marker(pytest.mark.skip(reason=ELSEWHERE[name]))


@pytest.fixture
def alias(transactional_db: None, settings: Settings) -> str:  # noqa: ARG001
    """The ledger's database."""
    settings.IDEMPOTENT_TASKS = {"DATABASE": ALIAS}
    return ALIAS


@pytest.fixture
def shop(alias: str) -> Counter:
    """The database's side of a test."""
    return Counter(alias)


@pytest.fixture
def till(request: pytest.FixtureRequest) -> Iterator[Till]:
    """An app of its own, with its tasks."""
    till = Till(request.node.name)
    yield till
    till.close()


@pytest.fixture
def postgresql() -> None:
    """What only PostgreSQL has is shown elsewhere."""
    pytest.skip("shown on PostgreSQL")
