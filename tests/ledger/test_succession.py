"""Who has the work of an attempt whose settlement was refused."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from django_idempotent_tasks.identity.key import Identity
from django_idempotent_tasks.ledger.succession import Heir, succeeded_by
from django_idempotent_tasks.ledger.values import Call, Claim, Entry, Grant
from django_idempotent_tasks.states import Reason, State
from tests.ledger.test_verdict import entry

#: It holds token 5 of generation 2.
CLAIM = Claim(
    Call(Identity(uuid4(), None, "7", None), "shop.charge", "accepted", None),
    "w:1:b",
    Grant(5, 2, 1, 0, Reason.NONE),
    60,
)


def row(state: State, **changes: Any) -> Entry:
    return entry(state, **{"token": 6, "generation": 2, **changes})


@pytest.mark.parametrize("state", list(State))
def test_a_row_of_an_earlier_time_says_nothing_about_who_lives(state: State) -> None:
    assert succeeded_by(row(state, token=4, generation=1), CLAIM).heir is Heir.NOBODY


@pytest.mark.parametrize(
    ("found", "heir"),
    [
        (None, Heir.NOBODY),
        (row(State.SUCCEEDED), Heir.DONE),
        (row(State.SUCCEEDED, token=5), Heir.DONE),
        (row(State.SUCCEEDED, was_answered=True), Heir.LEDGER),
        (row(State.FAILED), Heir.LEDGER),
        (row(State.REVIEW), Heir.LEDGER),
        (row(State.CANCELLED), Heir.LEDGER),
        (row(State.FAILED, runner_task_id="another"), Heir.LATER),
        (row(State.REVIEW, runner_task_id="another"), Heir.LATER),
        (row(State.CANCELLED, runner_task_id="another"), Heir.LATER),
        (row(State.FAILED, was_answered=True, task_id="another"), Heir.LEDGER),
        (row(State.PENDING, was_answered=True, task_id="another"), Heir.LEDGER),
        (row(State.PENDING), Heir.LEDGER),
        (row(State.RETRY, is_open=True), Heir.LEDGER),
        (row(State.RUNNING, is_open=False), Heir.LEDGER),
        (row(State.RUNNING, is_open=False, runner_task_id="another"), Heir.LATER),
        (row(State.RUNNING, is_open=False, no_message=True), Heir.LATER),
        (row(State.RETRY, is_open=True, no_message=True), Heir.LATER),
        (row(State.PENDING, no_message=True), Heir.LATER),
    ],
)
def test_who_has_the_work(found: Entry | None, heir: Heir) -> None:
    assert succeeded_by(found, CLAIM).heir is heir


def test_a_copy_comes_back_when_the_other_call_s_lease_ends() -> None:
    running = row(State.RUNNING, is_open=False, runner_task_id="another")
    assert succeeded_by(running, CLAIM).seconds == 12.5
