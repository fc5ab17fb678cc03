"""A process dies in a run on MariaDB or MySQL: the work is done once and nothing is left stuck."""

from __future__ import annotations

import pytest

from tests.crashes.scenarios import SCENARIOS, Scenario, before_effects, spots_of
from tests.crashes.test_every_line import die_at
from tests.services.mysql.server import mark

pytestmark = mark


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_a_death_before_any_effect_is_recovered_from(scenario: Scenario, alias: str) -> None:
    faults = die_at(before_effects(spots_of(scenario, alias)), scenario, alias)
    assert not faults, "\n".join(faults)
