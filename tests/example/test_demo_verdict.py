"""The demonstration's verdict reports what is lost, doubled, unasked or stale, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from example_project.demo.judging.verdict import Accepted, Observed, Verdict, verdict

ONE, TWO, THREE, FOUR = ("acme", "pay_1"), ("acme", "pay_2"), ("delta", "pay_1"), ("delta", "pay_2")
FIVE = ("delta", "pay_3")

ACCEPTED = [
    Accepted("evt_1", ONE, "completed"),
    Accepted("evt_2", ONE, "pending"),
    Accepted("evt_3", TWO, "pending"),
    Accepted("evt_4", TWO, "completed", declined=True),
    Accepted("evt_5", THREE, "completed"),
    Accepted("evt_6", THREE, "refunded"),
    Accepted("evt_7", FOUR, "completed", poison=True),
    Accepted("evt_8", FIVE, "completed", by_hand=True),
]

RIGHT = Observed(
    key_states={
        "evt_1": "SUCCEEDED",
        "evt_2": "SUCCEEDED",
        "evt_3": "SUCCEEDED",
        "evt_4": "FAILED (expected)",
        "evt_5": "SUCCEEDED",
        "evt_6": "SUCCEEDED",
        "evt_7": "FAILED (poison)",
        "evt_8": "SUCCEEDED",
    },
    deaths={"evt_7": 3},
    calls={ONE: 1, THREE: 2, FOUR: 3},
    booked=[ONE, THREE],
    moved=[ONE, THREE],
    notified=[ONE, THREE],
    statuses={ONE: "completed", TWO: "pending", THREE: "refunded"},
)


def judge(**changed: object) -> Verdict:
    return verdict(ACCEPTED, replace(RIGHT, **changed))  # type: ignore[arg-type]


def test_a_right_run_holds() -> None:
    judged = judge()

    assert judged == Verdict((), (), (), (), ())
    assert judged.holds


@pytest.mark.parametrize("effect", ["booked", "moved", "notified"])
def test_a_missing_effect_is_lost(effect: str) -> None:
    judged = judge(**{effect: [ONE]})

    assert judged.lost == (f"delta/pay_1 was not {effect}",)
    assert not judged.holds


@pytest.mark.parametrize("effect", ["booked", "moved", "notified"])
def test_an_effect_that_is_there_twice_is_doubled(effect: str) -> None:
    judged = judge(**{effect: [ONE, THREE, ONE]})

    assert judged.doubled == (f"acme/pay_1 was {effect} 2 times",)
    assert not judged.holds


@pytest.mark.parametrize("effect", ["booked", "moved", "notified"])
def test_an_effect_of_a_declined_payment_is_unexpected(effect: str) -> None:
    judged = judge(**{effect: [ONE, TWO, THREE]})

    assert judged.unexpected == (f"acme/pay_2 was {effect} unasked",)
    assert not judged.holds


@pytest.mark.parametrize("state", ["PENDING", "RUNNING", "RETRY", "FAILED", "CANCELLED"])
def test_an_accepted_event_that_did_not_succeed_is_lost(state: str) -> None:
    judged = judge(key_states={**RIGHT.key_states, "evt_2": state})

    assert judged.lost == (f"evt_2 is {state}, not SUCCEEDED",)
    assert not judged.holds


def test_an_accepted_event_without_a_key_is_lost() -> None:
    states = {name: state for name, state in RIGHT.key_states.items() if name != "evt_3"}

    assert judge(key_states=states).lost == ("evt_3 is without a key, not SUCCEEDED",)


def test_a_late_pending_that_overwrote_completed_is_stale() -> None:
    judged = judge(statuses={**RIGHT.statuses, ONE: "pending"})

    assert judged.stale == ("acme/pay_1 is pending, not completed",)
    assert not judged.holds


def test_a_payment_that_was_not_recorded_is_stale() -> None:
    assert judge(statuses={}).stale[0] == "acme/pay_1 is None, not completed"


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"key_states": {**RIGHT.key_states, "evt_7": "SUCCEEDED"}}, "is SUCCEEDED, not FAILED (poison)"),
        ({"deaths": {"evt_7": 4}}, "ended 4 workers, not 3"),
        ({"calls": {FOUR: 2}}, "was started 2 times, not 3"),
    ],
    ids=["not buried", "ended too many", "started too seldom"],
)
def test_a_poison_that_is_not_bounded_is_reported(changed: dict[str, object], problem: str) -> None:
    judged = judge(**changed)

    assert judged.unbounded == (f"evt_7 {problem}",)
    assert not judged.holds


def test_an_effect_of_the_poison_is_unexpected() -> None:
    assert judge(booked=[ONE, THREE, FOUR]).unexpected == ("delta/pay_2 was booked unasked",)


def test_a_charge_for_what_a_person_has_settled_is_unexpected() -> None:
    assert judge(moved=[ONE, THREE, FIVE]).unexpected == ("delta/pay_3 was moved unasked",)


def test_what_was_settled_and_is_open_again_is_lost() -> None:
    assert judge(key_states={**RIGHT.key_states, "evt_8": "REVIEW"}).lost == (
        "evt_8 is REVIEW, not SUCCEEDED",
    )


def test_nothing_accepted_and_nothing_done_holds() -> None:
    assert verdict([], Observed({}, {}, {}, [], [], [], {})).holds


def test_a_doubled_and_a_lost_charge_do_not_cancel_out() -> None:
    judged = judge(booked=[ONE, ONE])

    assert judged.lost
    assert judged.doubled
