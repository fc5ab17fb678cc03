"""A worker's child dies before, inside or after a step: later attempts repeat that step alone, or none."""

from __future__ import annotations

import json

import pytest

from django_idempotent_tasks.ledger.stores import get_store
from django_idempotent_tasks.models import Step
from django_idempotent_tasks.operations import dead_letters
from django_idempotent_tasks.states import State
from tests.sample import stepping
from tests.sample.stepping import STEPS
from tests.support.workers import processes
from tests.support.workers.processes import Worker
from tests.support.workers.site import Site

pytestmark = pytest.mark.process
NAMES = [*STEPS]
PLACES = [f"{place} {name}" for name in NAMES for place in ("before", "inside", "after")]


def before(place: str) -> int:
    """How many steps have been kept when a body ends at a place."""
    word, _, name = place.partition(" ")
    return NAMES.index(name) + (word == "after")


def runs_of(site: Site, key: str) -> list[tuple[str, int]]:
    """Which functions have run in which attempts."""
    return [(entry["name"], entry["attempt"]) for entry in site.journal.read("step", key)]


def expected_runs(place: str) -> list[tuple[str, int]]:
    """One run of each step, and two of the one inside which the first attempt ended."""
    kept = before(place)
    first = NAMES[: kept + place.startswith("inside")]
    return [*((name, 1) for name in first), *((name, 2) for name in NAMES[kept:])]


def verify(site: Site, key: str, place: str) -> None:
    """The second attempt has taken what the first one had kept, and no write was made twice."""
    assert runs_of(site, key) == expected_runs(place)
    kept = before(place)
    attempts = [1] * kept + [2] * (len(NAMES) - kept)
    assert json.loads(site.rows.row(key).result or "")["taken"] == attempts
    for name, attempt in zip(NAMES, attempts, strict=True):
        effects = [effect.attempt for effect in site.rows.effects(f"{key}-{name}")]
        # What is outside the ledger's transaction happens at least once, under one downstream key.
        assert effects == ([1, 2] if place == f"inside {name}" and STEPS[name] else [attempt])
        seen = {entry["downstream"] for entry in site.journal.read("step", key) if entry["name"] == name}
        assert len(seen) == 1


def test_a_child_that_dies_costs_the_step_that_it_was_in(site: Site, family: Worker, key: str) -> None:
    keys = {f"{key}-{number}": place for number, place in enumerate(PLACES)}
    for each, place in keys.items():
        site.send(stepping.stepping, each, place)
    for each, place in keys.items():
        row = site.rows.wait_for(each, State.SUCCEEDED)
        assert (row.attempts, row.crashes) == (2, 1), place
        verify(site, each, place)
    assert family.is_alive


@pytest.mark.usefixtures("family")
def test_a_redrive_takes_what_the_failed_attempt_had_kept(site: Site, key: str) -> None:
    keys = {
        f"{key}-{number}": place for number, place in enumerate(("after plan", "inside ask", "inside book"))
    }
    for each, place in keys.items():
        site.send(stepping.stepping, each, place, "fail")
    for each in keys:
        row = site.rows.wait_for(each, State.FAILED)
        assert dead_letters.redrive(get_store(), row, by="ann").done
    for each, place in keys.items():
        row = site.rows.wait_for(each, State.SUCCEEDED)
        # A redrive counts its attempts anew: the token tells the attempts of a step apart.
        kept = before(place)
        assert [name for name, _attempt in runs_of(site, each)].count(NAMES[0]) == 1
        tokens = Step.objects.filter(digest=row.digest).order_by("id").values_list("token", flat=True)
        assert [token > 1 for token in tokens] == [False] * kept + [True] * (len(NAMES) - kept)


@pytest.mark.parametrize("name", NAMES)
def test_an_owner_that_stood_still_in_a_step_keeps_nothing(
    site: Site, family: Worker, key: str, name: str
) -> None:
    place = f"inside {name}"
    site.send(stepping.brief, key, place, "stand still")
    first = site.journal.started(key)
    site.journal.wait_for("stands still", f"key={key}")
    site.rows.wait_for(key, State.SUCCEEDED)
    processes.resume(first["pid"])
    assert site.journal.wait_for("refused", key)["attempt"] == 1
    site.broker.wait_until_empty()
    verify(site, key, place)
    assert family.is_alive
