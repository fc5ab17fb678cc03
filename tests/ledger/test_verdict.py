"""Each cell of the table of outcomes: what a call gets that meets an existing row."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import pytest

from django_idempotent_tasks.identity.key import Identity
from django_idempotent_tasks.ledger.rules import Step, Verdict, decide
from django_idempotent_tasks.ledger.values import Call, Entry
from django_idempotent_tasks.states import Reason, State

SAME, OTHER = UUID(int=1), UUID(int=2)

#: Whether a claim is allowed by time in a state that has no time test.
TIMELESS = None
OVER, LASTING = True, False


def entry(state: State, *, is_open: bool | None = TIMELESS, **changes: Any) -> Entry:
    values: dict[str, Any] = {
        "reason": Reason.NONE,
        "token": 1,
        "generation": 1,
        "attempts": 1,
        "crashes": 0,
        "task": "shop.charge",
        "scope": None,
        "task_id": "accepted",
        "runner_task_id": None,
        "owner": "w:1:a",
        "fingerprint": SAME,
        "result": None,
        "opens_in": {None: None, True: -3.0, False: 12.5}[is_open],
        "was_answered": False,
    }
    return Entry(state=state, is_open=is_open, **values | changes)


def verdict(
    row: Entry | None, task_id: str, *, fingerprint: UUID | None = SAME, on_failed: str = "rerun"
) -> Verdict:
    identity = Identity(uuid4(), scope=None, key_text="7", fingerprint=fingerprint)
    call = Call(identity, task="shop.charge", task_id=task_id, message=None)
    return decide(row, call, owner="w:2:b", on_failed=on_failed)


def refused(reason: str) -> Verdict:
    return Verdict(Step.REFUSE, reason=reason)


@pytest.mark.parametrize("task_id", ["accepted", "another"])
def test_a_key_without_a_row_is_inserted(task_id: str) -> None:
    assert verdict(None, task_id) == Verdict(Step.INSERT)


@pytest.mark.parametrize(
    ("state", "is_open", "expected"),
    [
        (State.PENDING, TIMELESS, Verdict(Step.OPEN)),
        (State.RUNNING, LASTING, Verdict(Step.WAIT, seconds=12.5)),
        (State.RUNNING, OVER, Verdict(Step.OPEN)),
        (State.RETRY, LASTING, Verdict(Step.WAIT, seconds=12.5)),
        (State.RETRY, OVER, Verdict(Step.OPEN)),
        (State.SUCCEEDED, LASTING, Verdict(Step.REPLAY)),
        (State.SUCCEEDED, OVER, Verdict(Step.REPLAY)),
        (State.FAILED, TIMELESS, Verdict(Step.RECALL)),
        (State.REVIEW, TIMELESS, Verdict(Step.RECALL)),
        (State.CANCELLED, TIMELESS, Verdict(Step.CANCELLED)),
    ],
)
@pytest.mark.parametrize("task_id", ["accepted", "runner"])
@pytest.mark.parametrize("fingerprint", [SAME, OTHER, None])
@pytest.mark.parametrize("on_failed", ["rerun", "block"])
def test_the_same_call_gets(
    state: State,
    is_open: bool | None,
    expected: Verdict,
    task_id: str,
    fingerprint: UUID | None,
    on_failed: str,
) -> None:
    """Neither its payload nor the policy for failed keys matters, and whoever runs now counts as the same."""
    row = entry(state, is_open=is_open, runner_task_id="runner", reason=Reason.RETRIES_USED_UP)
    assert verdict(row, task_id, fingerprint=fingerprint, on_failed=on_failed) == expected


@pytest.mark.parametrize(
    ("state", "is_open", "expected"),
    [
        (State.PENDING, TIMELESS, refused("in_progress")),
        (State.RUNNING, LASTING, refused("in_progress")),
        (State.RUNNING, OVER, Verdict(Step.OPEN)),
        (State.RETRY, LASTING, refused("in_progress")),
        (State.RETRY, OVER, refused("in_progress")),
        (State.SUCCEEDED, LASTING, refused("already_completed")),
        (State.SUCCEEDED, OVER, Verdict(Step.REOPEN)),
        (State.REVIEW, TIMELESS, refused("in_review")),
        (State.CANCELLED, TIMELESS, Verdict(Step.REOPEN)),
    ],
)
@pytest.mark.parametrize("on_failed", ["rerun", "block"])
@pytest.mark.parametrize("fingerprint", [SAME, None])
def test_another_call_with_the_same_payload_gets(
    state: State, is_open: bool | None, expected: Verdict, on_failed: str, fingerprint: UUID | None
) -> None:
    row = entry(state, is_open=is_open)
    assert verdict(row, "another", on_failed=on_failed, fingerprint=fingerprint) == expected


@pytest.mark.parametrize(
    ("reason", "on_failed", "expected"),
    [
        (Reason.RETRIES_USED_UP, "rerun", Verdict(Step.REOPEN)),
        (Reason.RETRIES_USED_UP, "block", refused("failed")),
        (Reason.PERMANENT, "rerun", refused("failed")),
        (Reason.PERMANENT, "block", refused("failed")),
        (Reason.POISON, "rerun", refused("failed")),
        (Reason.POISON, "block", refused("failed")),
    ],
)
def test_another_call_that_meets_a_failed_key_gets(reason: Reason, on_failed: str, expected: Verdict) -> None:
    assert verdict(entry(State.FAILED, reason=reason), "another", on_failed=on_failed) == expected


@pytest.mark.parametrize(
    ("state", "is_open"),
    [
        (State.PENDING, TIMELESS),
        (State.RUNNING, LASTING),
        (State.RUNNING, OVER),
        (State.RETRY, LASTING),
        (State.RETRY, OVER),
        (State.SUCCEEDED, LASTING),
        (State.FAILED, TIMELESS),
        (State.REVIEW, TIMELESS),
    ],
)
def test_another_call_with_another_payload_reuses_the_key(state: State, is_open: bool | None) -> None:
    row = entry(state, is_open=is_open, reason=Reason.PERMANENT)
    assert verdict(row, "another", fingerprint=OTHER) == Verdict(Step.REUSED)


@pytest.mark.parametrize(
    ("state", "is_open"),
    [(State.SUCCEEDED, OVER), (State.CANCELLED, TIMELESS), (State.FAILED, TIMELESS)],
)
def test_a_key_that_is_open_to_new_work_takes_any_payload(state: State, is_open: bool | None) -> None:
    row = entry(state, is_open=is_open, reason=Reason.RETRIES_USED_UP)
    assert verdict(row, "another", fingerprint=OTHER) == Verdict(Step.REOPEN)


def test_a_payload_is_not_compared_with_a_row_that_has_none() -> None:
    row = entry(State.RUNNING, is_open=LASTING, fingerprint=None)
    assert verdict(row, "another", fingerprint=OTHER) == refused("in_progress")


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("is_open", [TIMELESS, OVER, LASTING])
def test_a_replaced_call_gets_its_answer_whatever_became_of_the_key(
    state: State, is_open: bool | None
) -> None:
    for task_id in ("accepted", "another"):
        row = entry(state, is_open=is_open, was_answered=True)
        assert verdict(row, task_id, fingerprint=OTHER) == Verdict(Step.ANSWER)


@pytest.mark.parametrize("is_open", [OVER, LASTING])
def test_a_claim_whose_grant_was_never_heard_of_is_recognised_by_its_owner(is_open: bool) -> None:
    row = entry(State.RUNNING, is_open=is_open, owner="w:2:b")
    assert verdict(row, "accepted") == Verdict(Step.OWN)


@pytest.mark.parametrize("state", [state for state in State if state is not State.RUNNING])
def test_an_owner_owns_nothing_that_is_not_running(state: State) -> None:
    row = entry(state, is_open=LASTING, owner="w:2:b")
    assert verdict(row, "accepted").step is not Step.OWN


def test_a_wait_is_never_negative() -> None:
    row = entry(State.RUNNING, is_open=LASTING, opens_in=-0.004)
    assert verdict(row, "accepted") == Verdict(Step.WAIT, seconds=0.0)


@pytest.mark.parametrize(("no_message", "step"), [(True, Step.OPEN), (False, Step.REFUSE)])
def test_a_due_retry_that_nobody_could_send_is_open_to_another_call(no_message: bool, step: Step) -> None:
    row = entry(State.RETRY, is_open=True, no_message=no_message)
    assert verdict(row, "another").step is step


@pytest.mark.parametrize("state", [State.PENDING, State.RETRY, State.RUNNING])
@pytest.mark.parametrize(
    ("theirs", "stored", "is_stale"),
    [
        ((0, 0, 1), (0, 0, 2), True),
        ((0, 0, 9), (4, 0, 0), True),
        ((0, 0, 9), (0, 1, 0), True),
        ((0, 0, 2), (0, 0, 2), False),
        ((0, 0, 3), (0, 0, 2), False),
        ((0, 0, 0), None, False),
        (None, (0, 0, 2), False),
    ],
)
def test_a_copy_of_an_earlier_turn_is_out_of_date_where_the_row_has_a_later_one(
    state: State, theirs: Any, stored: Any, is_stale: bool
) -> None:
    row = entry(state, is_open=TIMELESS if state is State.PENDING else OVER, turn=stored)
    identity = Identity(uuid4(), scope=None, key_text="7", fingerprint=SAME)
    call = Call(identity, task="shop.charge", task_id="accepted", message=None, turn=theirs)
    decided = decide(row, call, owner="w:2:b", on_failed="rerun")
    assert decided == Verdict(Step.STALE if is_stale else Step.OPEN)


@pytest.mark.parametrize("state", [State.SUCCEEDED, State.FAILED, State.REVIEW, State.CANCELLED])
def test_a_copy_of_an_earlier_turn_gets_the_end_of_its_call(state: State) -> None:
    identity = Identity(uuid4(), scope=None, key_text="7", fingerprint=SAME)
    call = Call(identity, task="shop.charge", task_id="accepted", message=None, turn=(0, 0, 0))
    assert decide(entry(state, turn=(4, 0, 0)), call, owner="w", on_failed="rerun").step is not Step.STALE


def test_a_copy_is_not_compared_with_the_message_of_a_call_that_took_over() -> None:
    identity = Identity(uuid4(), scope=None, key_text="7", fingerprint=SAME)
    call = Call(identity, task="shop.charge", task_id="accepted", message=None, turn=(0, 0, 0))
    row = entry(State.RETRY, is_open=OVER, runner_task_id="another", turn=(0, 0, 2))
    assert decide(row, call, owner="w", on_failed="rerun") == Verdict(Step.OPEN)
