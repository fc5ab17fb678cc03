"""The protocol keeps its promises in every order of events; each part that is taken away breaks one.

The decisions are those of ``verdict.decide`` itself; the statements of the stores are modelled.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from django_idempotent_tasks.ledger.rules import decide
from django_idempotent_tasks.ledger.values import Entry
from tests.crashes.model import world
from tests.crashes.model.rules import Rules
from tests.crashes.model.search import STUCK, Found, search
from tests.crashes.model.world import Faults, World, start

WHOLE = Rules()


def broken(begin: World, without: Rules) -> Found:
    """What goes wrong under rules that lack a part, and not under the whole ones with the same faults."""
    whole = search(begin, replace(WHOLE, stored=without.stored))
    assert not whole.wrong, whole
    return search(begin, without)


@pytest.mark.parametrize(
    "world",
    [
        pytest.param(start("A", faults=Faults(crashes=1, copies=1, pauses=1, losses=1)), id="one call"),
        pytest.param(start("A", faults=Faults(crashes=1, retries=1, outages=1, losses=1)), id="a retry"),
        pytest.param(start("A", faults=Faults(crashes=1, pauses=1, cuts=1)), id="an unheard grant"),
        pytest.param(
            start("A", reserved=True, faults=Faults(crashes=1, pauses=1, losses=2)), id="a reservation"
        ),
        pytest.param(start("A", "B", faults=Faults(copies=1, pauses=1)), id="two calls, a pause"),
        pytest.param(start("A", "B", faults=Faults(crashes=1, losses=1)), id="two calls, a crash"),
        pytest.param(start("A", "B", faults=Faults(failures=1, copies=1)), id="two calls, a failure"),
        pytest.param(start("A", "B", "C", faults=Faults(copies=1)), id="three calls, two workers"),
        pytest.param(
            start("A", "B", "C", workers=1, faults=Faults(copies=1, crashes=1)), id="three calls, one worker"
        ),
    ],
)
def test_nothing_is_lost_and_nothing_is_completed_twice(world: World) -> None:
    found = search(world, WHOLE)
    assert not found.wrong, found
    assert found.worlds > 500, "the model has lost its steps"


@pytest.mark.slow
def test_nothing_goes_wrong_with_more_faults_at_once() -> None:
    found = search(start("A", "B", faults=Faults(crashes=1, copies=1, pauses=1)), WHOLE)
    assert not found.wrong, found


class TestWhatIsOnlyFaster:
    """Parts that carry no promise as long as the others stand."""

    def test_a_busy_key_may_be_dropped_while_the_sweeper_has_its_message(self) -> None:
        world = start("A", "B", faults=Faults(crashes=1))
        assert not search(world, Rules(reschedules=False)).wrong

    def test_the_sweeper_is_not_needed_by_a_broker_that_loses_nothing(self) -> None:
        world = start("A", "B", faults=Faults(crashes=1, pauses=1))
        assert not search(world, Rules(sweeper=False)).wrong

    def test_a_message_need_not_be_stored_for_a_broker_that_loses_nothing(self) -> None:
        world = start("A", faults=Faults(crashes=1, copies=1, pauses=1, retries=1, outages=1))
        assert not search(world, Rules(stored=False)).wrong


class TestAWrongDecision:
    """The model asks the product: what it decides wrongly goes wrong here."""

    @pytest.fixture
    def overlooked(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        """``decide`` without what it knows of replaced calls."""
        monkeypatch.setattr(
            world, "decide", lambda entry, *args, **options: decide(_forgetful(entry), *args, **options)
        )
        world.decision.cache_clear()
        yield
        world.decision.cache_clear()

    @pytest.mark.usefixtures("overlooked")
    def test_overlooking_that_a_call_was_answered_is_caught(self) -> None:
        found = search(start("A", "B", faults=Faults(copies=1)), WHOLE)
        assert found.wrong == "A was completed twice"


def _forgetful(entry: Entry | None) -> Entry | None:
    return entry and replace(entry, was_answered=False)


class TestWithoutAPart:
    """Each part of the protocol is needed."""

    def test_a_completion_that_does_not_name_its_token_is_caught(self) -> None:
        found = broken(start("A", "B", faults=Faults(pauses=1)), Rules(fenced=False))
        assert found.wrong == "token 1 completed after token 2 was granted"

    def test_an_expiry_without_a_test_of_the_state_is_caught(self) -> None:
        found = broken(start("A", "B", "C", faults=Faults()), Rules(reclaim_tests_state=False))
        assert found.wrong == "a living lease was taken from its owner"

    def test_dropping_a_busy_key_without_a_sweeper_is_caught(self) -> None:
        found = broken(start("A", faults=Faults(crashes=1)), Rules(sweeper=False, reschedules=False))
        assert found.wrong == STUCK

    def test_a_heartbeat_that_does_not_name_its_claim_is_caught(self) -> None:
        world = start("A", faults=Faults(crashes=1, pauses=1))
        found = broken(world, Rules(heartbeat_names_its_claim=False))
        assert found.wrong == "a lease lives whose owner was told that it is over"

    def test_a_retry_that_is_published_before_it_is_written_is_caught(self) -> None:
        world = start("A", faults=Faults(retries=1, outages=1))
        found = broken(world, Rules(retry_writes_first=False, stored=False))
        assert found.wrong == STUCK
        assert found.way[-1] == "A cannot publish its retry"

    def test_a_takeover_without_a_token_of_its_own_is_caught(self) -> None:
        found = broken(start("A", faults=Faults(crashes=1)), Rules(takeover_counts=False, sweeper=False))
        assert found.wrong == "token 1 was granted again"

    def test_forgetting_a_replaced_call_is_caught(self) -> None:
        found = broken(start("A", "B", faults=Faults(copies=1)), Rules(remembers_accepted=False))
        assert found.wrong == "A was completed twice"

    def test_forgetting_the_call_that_had_taken_a_replaced_one_over_is_caught(self) -> None:
        world = start("A", "B", "C", workers=1, faults=Faults(copies=1, crashes=1))
        found = broken(world, Rules(remembers_runner=False))
        assert found.wrong.endswith("was completed twice")

    def test_a_lost_reservation_without_a_sweeper_is_caught(self) -> None:
        found = broken(start("A", reserved=True, faults=Faults(losses=1)), Rules(sweeper=False))
        assert found.wrong == STUCK

    def test_a_lost_reservation_without_its_message_is_caught(self) -> None:
        reserved = start("A", reserved=True, faults=Faults(losses=1))
        assert reserved.row is not None
        forgotten = reserved._replace(row=reserved.row._replace(message=None))
        assert search(forgotten, WHOLE).wrong == STUCK
