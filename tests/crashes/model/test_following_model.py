"""No order of events misses the last change, runs two bodies at once or lets two calls wait."""

from __future__ import annotations

import pytest

from tests.crashes.model.following import TWO_BODIES, TWO_WAIT, Protocol, Rules, World, world
from tests.crashes.model.search import STUCK, Found, explore

FAULTY = {"rollbacks": 1, "dead_senders": 1, "crashes": 1, "dead_ends": 1}


def search(start: World, rules: Rules) -> Found:
    return explore(start, Protocol(rules).steps, limit=400_000)


@pytest.mark.parametrize(
    "start",
    [
        pytest.param(world(2, **FAULTY), id="two senders, each fault"),
        pytest.param(world(3, crashes=1, dead_ends=1), id="three senders, deaths of runs"),
        pytest.param(world(3, rollbacks=1, dead_senders=1), id="three senders, deaths of senders"),
        pytest.param(world(3, cancels=1, dead_ends=1), id="three senders, a cancel"),
        pytest.param(world(4), id="four senders"),
    ],
)
def test_the_last_change_is_not_missed(start: World) -> None:
    found = search(start, Rules())
    assert not found.wrong, found
    assert found.worlds > 100, "the model has lost its steps"


@pytest.mark.parametrize(
    ("rules", "start", "wrong"),
    [
        pytest.param(Rules(follows_what_runs=False), world(2), STUCK, id="what runs is not followed"),
        pytest.param(Rules(holds_the_call=False), world(2), STUCK, id="a call that waits is not held"),
        pytest.param(Rules(holds_the_follow_up=False), world(3), STUCK, id="a follow-up is not held"),
        pytest.param(Rules(excludes=False), world(3), TWO_WAIT, id="senders do not exclude each other"),
        pytest.param(
            Rules(run_promotes=False, sweeper_promotes=False), world(2), STUCK, id="a run promotes nothing"
        ),
        pytest.param(
            Rules(sender_promotes=False, sweeper_promotes=False), world(2), STUCK, id="nor does a sender"
        ),
        pytest.param(
            Rules(sweeper_promotes=False), world(2, dead_ends=1), STUCK, id="a run dies, without a sweeper"
        ),
        pytest.param(
            Rules(sweeper_promotes=False), world(2, dead_senders=1), STUCK, id="a sender dies, without one"
        ),
        pytest.param(
            Rules(waits_after_cancel=False), world(2, cancels=1), TWO_BODIES, id="a cancel is the end"
        ),
    ],
)
def test_each_part_is_needed(rules: Rules, start: World, wrong: str) -> None:
    assert not search(start, Rules()).wrong
    assert search(start, rules).wrong == wrong


def test_who_promotes_costs_time_only_where_a_sweeper_runs() -> None:
    for rules in (Rules(run_promotes=False), Rules(sender_promotes=False)):
        assert not search(world(2, **FAULTY), rules).wrong
