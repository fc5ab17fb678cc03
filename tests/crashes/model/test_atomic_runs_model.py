"""An atomic run is committed once, in every order of deaths and copies; each part taken away breaks that.

The decisions are those of ``verdict.decide`` itself; the statements of the stores are modelled.
"""

from __future__ import annotations

import pytest

from tests.crashes.model.atomic_run import AtomicRuns
from tests.crashes.model.atomic_world import AtomicRules, Faults, World, begin
from tests.crashes.model.search import STUCK, Found, explore

WHOLE = AtomicRules()


def search(world: World, rules: AtomicRules, *, limit: int = 100_000) -> Found:
    return explore(world, AtomicRuns(rules).steps, limit=limit)


def broken(world: World, without: AtomicRules) -> Found:
    """What goes wrong under rules that lack a part, and not under the whole ones with the same faults."""
    whole = search(world, WHOLE)
    assert not whole.wrong, whole
    return search(world, without)


def alone(**faults: int) -> World:
    """One call and one worker, which dies and comes back."""
    return begin("A", workers=1, faults=Faults(**faults))


@pytest.mark.parametrize(
    "world",
    [
        pytest.param(begin("A", faults=Faults(kills=1, copies=1, retries=1)), id="a copy, a killed worker"),
        pytest.param(
            begin("A", faults=Faults(deaths=1, kills=1, ghosts=1)), id="a death that goes unnoticed"
        ),
        pytest.param(begin("A", faults=Faults(cuts=1, copies=1, retries=1)), id="an unheard commit"),
        pytest.param(alone(kills=3, deaths=1, ghosts=1), id="killed again and again"),
        pytest.param(alone(kills=1, deaths=3, retries=1), id="a child that dies again and again"),
        pytest.param(
            begin("A", reserved=True, faults=Faults(kills=1, deaths=1, retries=1)), id="a reservation"
        ),
        pytest.param(begin("A", reserved=True, faults=Faults(kills=1, cancels=1, ghosts=1)), id="a cancel"),
        pytest.param(begin("A", "B", faults=Faults(copies=1, retries=1)), id="two calls, a copy"),
        pytest.param(begin("A", "B", faults=Faults(deaths=1, cancels=1)), id="two calls, a cancel"),
        pytest.param(begin("A", "B", faults=Faults(failures=1, copies=1)), id="two calls, a failure"),
        pytest.param(begin("A", "B", "C", workers=1, faults=Faults(kills=1)), id="three calls"),
    ],
)
def test_nothing_is_lost_nothing_is_committed_twice_and_poison_is_bounded(world: World) -> None:
    found = search(world, WHOLE)
    assert not found.wrong, found
    assert found.worlds > 500, "the model has lost its steps"


@pytest.mark.slow
@pytest.mark.parametrize(
    "world",
    [
        pytest.param(begin("A", faults=Faults(kills=2, deaths=1, ghosts=1)), id="two killed workers"),
        pytest.param(begin("A", faults=Faults(kills=1, deaths=2, copies=1)), id="deaths of copies"),
        pytest.param(alone(kills=3, deaths=2, ghosts=1, copies=1, retries=1), id="everything at once"),
        pytest.param(
            begin("A", reserved=True, faults=Faults(kills=1, deaths=1, ghosts=1, retries=1, outages=1)),
            id="a reservation, everything at once",
        ),
    ],
)
def test_nothing_goes_wrong_with_more_faults_at_once(world: World) -> None:
    found = search(world, WHOLE, limit=200_000)
    assert not found.wrong, found


class TestWithoutAPart:
    """Each part of an atomic run is needed."""

    def test_a_claim_that_is_committed_before_its_body_is_caught(self) -> None:
        found = broken(alone(kills=1), AtomicRules(one_transaction=False))
        assert found.wrong == STUCK
        assert found.way[-1] == "the worker of A is killed"

    def test_a_claim_that_does_not_compare_what_was_read_is_caught(self) -> None:
        found = broken(begin("A", faults=Faults(copies=1)), AtomicRules(claims_compare=False))
        assert found.wrong == "A was committed twice"

    def test_a_record_that_overwrites_a_success_is_caught(self) -> None:
        found = broken(begin("A", faults=Faults(cuts=1)), AtomicRules(record_compares=False))
        assert found.wrong == "A was committed twice"
        assert "A commits unheard" in found.way

    def test_a_record_without_the_message_is_caught(self) -> None:
        found = broken(begin("A", faults=Faults(retries=1, outages=1)), AtomicRules(record_stores=False))
        assert found.wrong == STUCK
        assert found.way[-1] == "A cannot publish its retry"

    def test_a_retry_that_cannot_be_published_without_a_sweeper_is_caught(self) -> None:
        found = broken(begin("A", faults=Faults(retries=1, outages=1)), AtomicRules(sweeper=False))
        assert found.wrong == STUCK

    def test_starts_of_redelivered_copies_that_nobody_counts_are_caught(self) -> None:
        found = broken(alone(kills=4), AtomicRules(counts_starts=False))
        assert found.wrong == "the body was started after 2 deaths"
        assert "the child of A dies" not in found.way

    def test_a_count_that_is_not_taken_back_is_caught(self) -> None:
        found = broken(alone(copies=1, retries=2), AtomicRules(takes_back=False))
        assert found.wrong == "more crashes were counted than workers died"
        assert not {"the child of A dies", "the worker of A is killed"} & {*found.way}

    def test_a_parent_that_records_nothing_is_caught(self) -> None:
        found = broken(alone(deaths=4), AtomicRules(hook=False))
        assert found.wrong == "the body was started after 2 deaths"

    def test_a_parent_that_counts_a_counted_start_again_is_caught(self) -> None:
        found = broken(alone(kills=1, deaths=1), AtomicRules(hook_knows_counted=False))
        assert found.wrong == "more crashes were counted than workers died"

    def test_a_start_whatever_has_died_before_is_caught(self) -> None:
        found = broken(alone(deaths=4), AtomicRules(bounds_poison=False))
        assert found.wrong == "the body was started after 2 deaths"

    def test_forgetting_a_replaced_call_is_caught(self) -> None:
        found = broken(begin("A", "B", faults=Faults(copies=1)), AtomicRules(remembers=False))
        assert found.wrong == "A was committed twice"

    def test_a_copy_that_is_dropped_while_a_dead_run_still_holds_the_key_is_caught(self) -> None:
        found = broken(begin("A", faults=Faults(kills=1, ghosts=1)), AtomicRules(comes_back=False))
        assert found.wrong == STUCK
        assert found.way[-1] == "A comes back"
