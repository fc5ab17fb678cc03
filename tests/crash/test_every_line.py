"""A process dies at any line: whatever it was doing, the work is done once and nothing is left stuck."""

from __future__ import annotations

import pytest

from tests.crash.conftest import ALIASES
from tests.crash.scenarios import FILES, SCENARIOS, Scenario, between_effects, spots_of
from tests.crash.world import DEAD, die
from tests.support.glitch import Glitch, Spot

pytestmark = pytest.mark.django_db(transaction=True, databases=ALIASES)


def die_at(spots: list[Spot], scenario: Scenario, alias: str) -> dict[str, list[str]]:
    """Let a process die at each of the spots, one after the other; what is wrong after the recovery."""
    found = {}
    for spot in spots:
        stage = scenario.begin(alias)
        code, _ = stage.world.run_mortal(
            lambda: Glitch(FILES).strike(spot, die, lambda: scenario.act(stage))  # noqa: B023
        )
        assert code == DEAD, f"{spot} was not reached"
        stage.recover()
        found[str(spot)] = stage.faults(scenario.ends)
    return {spot: faults for spot, faults in found.items() if faults}


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_a_death_between_any_two_effects_is_recovered_from(scenario: Scenario, alias: str) -> None:
    spots = between_effects(spots_of(scenario, alias))
    assert die_at(spots, scenario, alias) == {}


@pytest.mark.slow
@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_a_death_at_any_line_is_recovered_from(scenario: Scenario, alias: str) -> None:
    spots = spots_of(scenario, alias)
    print(f"{len(spots)} lines, {len(between_effects(spots))} between effects")
    assert die_at(spots, scenario, alias) == {}
