"""A signal strikes inside the claim or the settlement: the ledger is asked what happened, and believed."""

from __future__ import annotations

import pytest

from tests.crash.conftest import ALIASES
from tests.crash.scenarios import (
    COMPLETION,
    FAILURE,
    PACKAGE,
    RETRY,
    RETURN,
    TAKEOVER,
    Scenario,
    between_effects,
    first_visits,
    spots_of,
)
from tests.crash.strikes import INTERRUPT, SHUTDOWN, SOFT_LIMIT, Signal, Strike

pytestmark = pytest.mark.django_db(transaction=True, databases=ALIASES)

each_signal = pytest.mark.parametrize("signal", [SOFT_LIMIT, SHUTDOWN, INTERRUPT], ids=str)


def faults_of(strikes: list[Strike], alias: str) -> dict[str, list[str]]:
    """What is wrong after each of the strikes, where anything is."""
    found = {str(strike): strike.faults(alias) for strike in strikes}
    return {strike: faults for strike, faults in found.items() if faults}


@each_signal
@pytest.mark.parametrize("scenario", [COMPLETION, RETURN], ids=str)
def test_a_signal_between_any_two_effects_leaves_nothing_to_guess(
    scenario: Scenario, signal: Signal, alias: str
) -> None:
    spots = between_effects(spots_of(scenario, alias))
    assert faults_of([Strike(signal, spot, scenario) for spot in spots], alias) == {}


def test_a_signal_at_the_heart_leaves_it_beating_for_nobody(alias: str) -> None:
    heart = str(PACKAGE / "heartbeat.py")
    spots = [spot for spot in first_visits(spots_of(COMPLETION, alias)) if spot.file == heart]
    assert faults_of([Strike(SOFT_LIMIT, spot, COMPLETION) for spot in spots], alias) == {}


@pytest.mark.slow
@each_signal
@pytest.mark.parametrize("scenario", [COMPLETION, RETURN, RETRY, TAKEOVER, FAILURE], ids=str)
def test_a_signal_at_any_line_leaves_nothing_to_guess(scenario: Scenario, signal: Signal, alias: str) -> None:
    strikes = [Strike(signal, spot, scenario) for spot in first_visits(spots_of(scenario, alias))]
    assert faults_of(strikes, alias) == {}
