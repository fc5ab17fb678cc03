"""A process dies at any line: whatever it was doing, the work is done once and nothing is left stuck."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crashes.scenarios import FILES, SCENARIOS, Scenario, before_effects, spots_of
from tests.crashes.world import DEAD, die
from tests.support.deliveries import ALIASES, APPS
from tests.support.glitch import Glitch, Spot, files_of

pytestmark = pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS)

#: What the scenarios came by when this was written; fewer is allowed only for code that went.
LEAST_FILES, LEAST_LINES = 60, 1300


def die_at(spots: list[Spot], scenario: Scenario, alias: str) -> list[str]:
    """Let a process die at each of the spots, one after the other; what is wrong after the recovery."""
    found = []
    for spot in spots:
        stage = scenario.begin(alias)
        code = stage.world.run_mortal(
            lambda: Glitch(FILES).strike(spot, die, lambda: scenario.act(stage))  # noqa: B023
        )
        assert code == DEAD, f"{spot} was not reached"
        stage.recover()
        found += [f"death at {spot}: {fault}" for fault in stage.faults(scenario.ends)]
    return found


def test_a_module_that_has_moved_is_missed_aloud(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"moved\.py"):
        files_of(tmp_path / "moved.py")


@pytest.mark.parametrize("alias", ["sqlite"], indirect=True)
def test_the_scenarios_come_by_as_many_files_and_lines_as_ever(alias: str) -> None:
    """A module that leaves the rooms, or a scenario that no longer comes by, would end unnoticed."""
    places = {spot.place for scenario in SCENARIOS for spot in spots_of(scenario, alias)}
    files = {file for file, _line in places}
    print(f"the scenarios come by {len(places)} lines of {len(files)} files")
    assert len(files) >= LEAST_FILES
    assert len(places) >= LEAST_LINES


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_a_death_before_any_effect_is_recovered_from(scenario: Scenario, alias: str) -> None:
    faults = die_at(before_effects(spots_of(scenario, alias)), scenario, alias)
    assert not faults, "\n".join(faults)


@pytest.mark.slow
@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_a_death_at_any_line_is_recovered_from(scenario: Scenario, alias: str) -> None:
    faults = die_at(spots_of(scenario, alias), scenario, alias)
    assert not faults, "\n".join(faults)
