"""A signal strikes inside the claim or the settlement: the ledger is asked what happened, and believed."""

from __future__ import annotations

import pytest

from tests.crashes.scenarios import (
    COMPLETION,
    FAILURE,
    FILES,
    PACKAGE,
    RETRY,
    RETURN,
    TAKEOVER,
    TRANSACTIONS,
    Scenario,
    after_effects,
    first_visits,
    spots_of,
)
from tests.crashes.strikes import INTERRUPT, SHUTDOWN, SOFT_LIMIT, Signal, Strike
from tests.support.deliveries import ALIASES, APPS
from tests.support.glitch import Spot, files_of

pytestmark = pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS)

each_signal = pytest.mark.parametrize("signal", [SOFT_LIMIT, SHUTDOWN, INTERRUPT], ids=str)


def strike(
    signal: Signal, spots: list[Spot], scenario: Scenario, alias: str, files: frozenset[str] = FILES
) -> None:
    """Let the signal strike at each of the spots, one after the other, and find nothing wrong."""
    strikes = [Strike(signal, spot, scenario, files) for spot in spots]
    faults = [f"{each}: {fault}" for each in strikes for fault in each.faults(alias)]
    assert not faults, "\n".join(faults)


@each_signal
@pytest.mark.parametrize("scenario", [COMPLETION, RETURN], ids=str)
def test_a_signal_after_any_effect_leaves_nothing_to_guess(
    scenario: Scenario, signal: Signal, alias: str
) -> None:
    strike(signal, after_effects(spots_of(scenario, alias)), scenario, alias)


def lines_of(module: str, scenario: Scenario, alias: str) -> list[Spot]:
    """List the lines of one of our modules that a clean run comes by, each once."""
    files = files_of(PACKAGE / f"{module}.py")
    return [spot for spot in first_visits(spots_of(scenario, alias)) if spot.file in files]


@pytest.mark.parametrize("alias", ["sqlite"], indirect=True)
def test_a_signal_at_the_heart_leaves_it_beating_for_nobody(alias: str) -> None:
    strike(SOFT_LIMIT, lines_of("running/heartbeat", COMPLETION, alias), COMPLETION, alias)


@pytest.mark.parametrize("alias", ["sqlite"], indirect=True)
@pytest.mark.parametrize("scenario", [TAKEOVER, FAILURE], ids=str)
def test_a_signal_as_receivers_are_told_leaves_what_they_are_told_of(scenario: Scenario, alias: str) -> None:
    strike(SOFT_LIMIT, lines_of("signals", scenario, alias), scenario, alias)


@pytest.mark.parametrize("signal", [SOFT_LIMIT, SHUTDOWN], ids=str)
def test_a_signal_as_a_transaction_ends_is_not_taken_for_an_error_of_the_database(
    signal: Signal, alias: str
) -> None:
    """Django, struck between its own lines, raises an error of its own or stays inside the block."""
    spots = [spot for spot in spots_of(COMPLETION, alias, TRANSACTIONS) if spot.function == "__exit__"]
    strike(signal, spots, COMPLETION, alias, TRANSACTIONS)


@pytest.mark.slow
@pytest.mark.parametrize("signal", [SOFT_LIMIT, SHUTDOWN], ids=str)
@pytest.mark.parametrize("scenario", [COMPLETION, RETURN, RETRY, TAKEOVER, FAILURE], ids=str)
def test_a_signal_at_any_line_leaves_nothing_to_guess(scenario: Scenario, signal: Signal, alias: str) -> None:
    strike(signal, first_visits(spots_of(scenario, alias)), scenario, alias)
