"""What was reserved is run once unless it is cancelled, and what was rolled back is not run at all."""

from __future__ import annotations

import pytest

from tests.crashes.model.protocol import Protocol
from tests.crashes.model.rules import Rules
from tests.crashes.model.search import STUCK, search
from tests.crashes.model.world import Faults, World, sending

WHOLE = Rules()


@pytest.mark.parametrize(
    "world",
    [
        pytest.param(sending("A", faults=Faults(dead_senders=1, losses=1, crashes=1)), id="a dead sender"),
        pytest.param(sending("A", faults=Faults(cancels=1, crashes=1, copies=1)), id="a cancel, a crash"),
        pytest.param(sending("A", faults=Faults(cancels=1, pauses=1, retries=1)), id="a cancel, a pause"),
        pytest.param(sending("A", "B", faults=Faults(rollbacks=1, dead_senders=1)), id="two senders"),
        pytest.param(sending("A", "B", faults=Faults(cancels=1, copies=1)), id="two senders, a cancel"),
        pytest.param(sending("A", "B", faults=Faults(crashes=1)), id="two senders, a crash"),
        pytest.param(sending("A", "B", "C", workers=1, faults=Faults(copies=1)), id="three senders"),
    ],
)
def test_what_is_reserved_is_run_once_and_nothing_is_lost(world: World) -> None:
    found = search(world, WHOLE)
    assert not found.wrong, found
    assert found.worlds > 100, "the model has lost its steps"


class TestWithoutAPart:
    """Each part of sending is needed."""

    def test_publishing_before_the_commit_is_caught(self) -> None:
        found = search(sending("A", faults=Faults(rollbacks=1)), Rules(publishes_after_commit=False))
        assert found.wrong == "A was run and had been rolled back"

    def test_a_dead_sender_without_a_sweeper_is_caught(self) -> None:
        world = sending("A", faults=Faults(dead_senders=1))
        assert not search(world, WHOLE).wrong
        assert search(world, Rules(sweeper=False)).wrong == STUCK

    def test_a_cancel_of_what_has_ended_is_caught(self) -> None:
        world = sending("A", "B", faults=Faults(cancels=1))
        assert not search(world, WHOLE).wrong
        assert search(world, Rules(cancel_tests_state=False)).wrong == "generation 1 was completed twice"

    def test_a_claim_of_what_another_call_reserved_is_caught(self) -> None:
        world = sending("A", "B", faults=Faults(copies=1))
        assert not search(world, WHOLE).wrong
        found = search(world, Rules(reserved_names_its_call=False))
        assert found.wrong.endswith("was completed twice")


def test_a_cancelled_key_is_run_again_only_for_another_call() -> None:
    world = sending("A", faults=Faults(cancels=1, copies=1, losses=1))
    protocol = Protocol(WHOLE)
    seen, todo = {world}, [world]
    while todo:
        for _, after in protocol.steps(todo.pop()):
            if after not in seen:
                seen.add(after)
                todo.append(after)
    ended = [one for one in seen if one.row and one.row.state == 6 and not one.faults.cancels]
    assert ended
    assert not any("A" in one.served for one in ended)
