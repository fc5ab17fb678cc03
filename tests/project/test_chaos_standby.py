"""The pair of servers of a chaos run: what a failover keeps, and what it loses where it is asynchronous."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import psycopg
import pytest

from benchmarks.chaos.standby import Pair

pytestmark = pytest.mark.slow

NOTE = "INSERT INTO note VALUES (%s)"


@pytest.fixture
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    """A pair with a table."""
    with Pair(synchronous=request.param).start() as servers:
        run(servers, "CREATE TABLE note (words text)")
        yield servers


def run(pair: Pair, sql: str, *values: str) -> list[str]:
    """As a client that names both servers and takes the primary."""
    with psycopg.connect(pair.url, autocommit=True) as connection:
        found = connection.execute(sql.encode(), values)
        return [str(row[0]) for row in found] if found.description else []


def noting(pair: Pair, words: str) -> Callable[[float], None]:
    """A rest in which somebody writes once."""
    left = [words]

    def rest(_seconds: float) -> None:
        while left:
            run(pair, NOTE, left.pop())

    return rest


@pytest.mark.parametrize("pair", [True], indirect=True)
def test_what_a_synchronous_pair_has_answered_is_there_after_each_failover(pair: Pair) -> None:
    for words in ("first", "second"):
        run(pair, NOTE, words)
        pair.fail_over(0, lambda _seconds: None, behind=False)
    assert run(pair, "SELECT words FROM note ORDER BY words") == ["first", "second"]


@pytest.mark.parametrize("pair", [False], indirect=True)
def test_a_standby_that_is_asynchronous_and_was_away_lacks_what_was_answered_meanwhile(pair: Pair) -> None:
    run(pair, NOTE, "before")
    pair.fail_over(0, noting(pair, "meanwhile"), behind=True)
    assert run(pair, "SELECT words FROM note") == ["before"]
