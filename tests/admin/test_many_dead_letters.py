"""Many dead letters: those that were picked at once, all that match by an operation, each with its count."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import pytest
from django.test import Client

from django_idempotent_tasks.admin.actions import many
from django_idempotent_tasks.models import DeadLetter, OperationState, RedriveOperation
from django_idempotent_tasks.operations import redrives
from django_idempotent_tasks.operations.selection import Selection
from django_idempotent_tasks.states import State
from django_idempotent_tasks.sweeper import redrives as redriving
from tests.admin.conftest import HOSTILE, Person, at_most, logged, messages_of, page, seen
from tests.admin.test_dead_letters import DEAD, WHY, dead
from tests.admin.test_keys import inert
from tests.support.keys import Keys

pytestmark = pytest.mark.django_db
OPERATION = "redriveoperation"

WRONG_QUERIES: list[dict[str, str]] = [
    {"state": "x"}, {"state": "3"}, {"state": "\u0663"}, {"category": "99"}, {"task": "a\0b"},
    {"ended": "1y"},
]  # fmt: skip
#: What no page of ours has in its hidden field.
WRONG_MARKS = (
    "{", "abc", "00:1 x:y", "[]", '{"state": ' + "[" * 9000, f"{'0' * 32}:{2**70}", f"{'0' * 32}:\u0663",
)  # fmt: skip
WRONG_SELECTIONS: list[dict[str, Any]] = [
    {"nonsense": 1}, {"task": "a\0b"}, {"task": "\ud800"}, {"scope": 7}, {"state": float("inf")},
    {"state": True}, {"state": 3}, {"category": 5}, {"ended_after": "2026-01-01T00:00"},
    {"ended_before": "0001-01-01T00:00+14:00"}, {"ended_before": 7}, {"digests": "abc"}, {"digests": [7]},
    {"digests": {"a": 1}},
]  # fmt: skip


def pick(client: Client, action: str, *claims: Any, query: str = "", **fields: str) -> Any:
    """Tick rows in the list and press Go."""
    picked = [str(claim.digest) for claim in claims]
    return client.post(
        page(DEAD) + query, {"action": action, "_selected_action": picked, **fields}, follow=True
    )


def answer(client: Client, asked: Any, **fields: str) -> Any:
    """Send the confirmation page."""
    mark = asked.context["form"].initial["seen"]
    return client.post(asked.context["target"], {"seen": mark, "reason": WHY, **fields}, follow=True)


def test_picked_ones_are_redriven_at_once_and_each_is_logged(root: Client, keys: Keys) -> None:
    one, two, left = (dead(keys) for _ in range(3))
    with keys.untouched(one, two, left):
        asked = pick(root, "redrive_picked", one, two, query="?category=2")
    assert "Redrive 2 dead letters?" in asked.content.decode()
    told = answer(root, asked)
    assert "Redrive: done 2 of 2." in messages_of(told)
    assert [keys.row(claim).state for claim in (one, two, left)] == [
        State.PENDING,
        State.PENDING,
        State.FAILED,
    ]
    assert logged() == [f"Redrive: {WHY}"] * 2
    assert told.redirect_chain[0][0] == f"{page(DEAD)}?category=2", "the filters are kept"


def test_of_picked_ones_those_that_moved_on_are_named(root: Client, keys: Keys) -> None:
    one, two = dead(keys), dead(keys)
    asked = pick(root, "discard_picked", one, two)
    keys.store().redrive(two.digest, token=two.grant.token, message="{}")
    told = messages_of(answer(root, asked))
    assert "Discard: done 1 of 2." in told
    assert "has moved on and is PENDING now" in told
    assert keys.row(two).state == State.PENDING


def test_all_that_match_are_redriven_by_an_operation_that_took_the_filters_and_no_more(
    root: Client, keys: Keys
) -> None:
    wanted = [dead(keys, signature="a" * 16) for _ in range(3)]
    other = dead(keys, signature="b" * 16)
    asked = root.get(page(DEAD, "redrive_many"), {"signature": "a" * 16, "ended": "24h"})
    assert "Redrive 3 dead letters?" in asked.content.decode()
    late = dead(keys, signature="a" * 16)
    told = answer(root, asked, rate="50")
    operation = RedriveOperation.objects.get()
    assert (operation.total, operation.rate, operation.created_by, operation.reason) == (3, 50, "root", WHY)
    assert "Begun: the sweeper redrives 3 dead letters" in messages_of(told)
    assert "0 / 3" in told.content.decode()
    RedriveOperation.objects.update(rate=None)
    redriving.carry_on(keys.store())
    assert {keys.row(claim).state for claim in wanted} == {State.PENDING}
    assert [keys.row(claim).state for claim in (other, late)] == [State.FAILED] * 2
    assert logged() == [f"Begun, 3: {WHY}"]


def test_select_across_pages_means_all_that_match(root: Client, keys: Keys) -> None:
    one = dead(keys, signature="a" * 16)
    dead(keys, signature="a" * 16)
    dead(keys, signature="b" * 16)
    asked = pick(root, "redrive_picked", one, query=f"?signature={'a' * 16}", select_across="1")
    assert "Redrive 2 dead letters?" in asked.content.decode()
    assert RedriveOperation.objects.count() == 0


def test_a_search_narrows_what_matches(root: Client, keys: Keys) -> None:
    one, _two = dead(keys), dead(keys)
    asked = root.get(page(DEAD, "redrive_many"), {"q": str(one.digest)})
    assert Selection.decode(asked.context["form"].initial["seen"]).digests == (one.digest,)


def test_a_discard_of_all_that_match_is_bounded(root: Client, keys: Keys, monkeypatch: Any) -> None:
    claims = [dead(keys) for _ in range(3)]
    monkeypatch.setattr(many, "BITE", 2)
    told = root.get(page(DEAD, "discard_many"), follow=True)
    assert "3 match; a page discards at most 2" in messages_of(told)
    assert "idem dead-letters discard" in messages_of(told)
    monkeypatch.setattr(many, "BITE", 3)
    asked = root.get(page(DEAD, "discard_many"))
    monkeypatch.setattr(many, "BITE", 2)
    assert "discards at most 2" in messages_of(answer(root, asked))
    assert DeadLetter.objects.count() == 3
    monkeypatch.setattr(many, "BITE", 3)
    assert "Discard: done 3 of 3." in messages_of(answer(root, asked))
    assert all(keys.row(claim).discarded_at for claim in claims)
    assert len(logged()) == 3


def test_what_a_person_may_not_decide_about_is_left_out(person: Person, keys: Keys) -> None:
    failed, review = dead(keys), dead(keys, state=State.REVIEW)
    viewer = person("view_deadletter")
    assert viewer.get(page(DEAD, "redrive_many")).status_code == 403
    assert viewer.post(page(DEAD, "redrive_many"), {"seen": "{}", "reason": WHY}).status_code == 403
    assert "redrive_picked" not in viewer.get(page(DEAD)).content.decode()
    redriver = person("view_deadletter", "redrive_deadletter", "discard_deadletter", name="eve")
    with keys.untouched(failed, review):
        assert "Redrive 1 dead letter?" in redriver.get(page(DEAD, "redrive_many")).content.decode()
        assert redriver.get(page(DEAD, "redrive_many"), {"state": "4"}).status_code == 403
        forged = Selection(state=State.REVIEW).encode()
        assert redriver.post(page(DEAD, "redrive_many"), {"seen": forged, "reason": WHY}).status_code == 403
    told = messages_of(answer(redriver, pick(redriver, "discard_picked", failed, review)))
    assert "done 1 of 2" in told
    assert "you may not decide" in told
    assert keys.row(review).state == State.REVIEW


def test_wrong_values_are_an_answer_and_no_error(root: Client, keys: Keys) -> None:
    claim = dead(keys)
    with keys.untouched(claim):
        for query in WRONG_QUERIES:
            assert root.get(page(DEAD, "redrive_many"), query).status_code == 400
        for mark in (*WRONG_MARKS, *map(json.dumps, WRONG_SELECTIONS)):
            for reason in (WHY, ""):
                told = root.post(page(DEAD, "redrive_many"), {"seen": mark, "reason": reason})
                assert told.status_code == 400, mark
        asked = root.get(page(DEAD, "redrive_many"))
        mark = asked.context["form"].initial["seen"]
        for fields in ({"reason": ""}, {"reason": WHY, "rate": "0"}):
            assert root.post(page(DEAD, "redrive_many"), {"seen": mark, **fields}).status_code == 400
    assert RedriveOperation.objects.count() == 0


def test_an_operation_is_watched_and_stopped_once(root: Client, person: Person, keys: Keys) -> None:
    dead(keys)
    operation = redrives.begin(Selection(task=HOSTILE), by=HOSTILE, reason=HOSTILE)
    inert(root.get(page(OPERATION)).content.decode())
    inert(root.get(page(OPERATION, "change", operation.pk)).content.decode())
    url = page(OPERATION, "stop", operation.pk)
    inert(root.get(url).content.decode())
    viewer = person("view_redriveoperation")
    assert viewer.post(url, {"seen": "1", "reason": WHY}).status_code == 403
    second = person("view_redriveoperation", "redrive_deadletter", name="eve")
    mark = seen(second, url)
    assert "Stopped." in messages_of(root.post(url, {"seen": seen(root, url), "reason": WHY}, follow=True))
    operation.refresh_from_db()
    assert (operation.state, operation.stopped_by) == (OperationState.STOPPED, "root")
    told = second.post(url, {"seen": mark, "reason": WHY}, follow=True)
    assert "It has ended: stopped by root." in messages_of(told)


def test_a_hundred_picked_ones_take_a_bounded_number_of_statements_each(root: Client, keys: Keys) -> None:
    claims = [dead(keys) for _ in range(10)]
    asked = pick(root, "redrive_picked", *claims)
    with at_most(10 * 6 + 12):
        answer(root, asked)


def test_no_more_are_picked_by_hand_than_one_selection_holds() -> None:
    with pytest.raises(ValueError, match="At most 10,000 dead letters can be picked by hand: narrow it"):
        Selection(digests=tuple(UUID(int=number) for number in range(10_001)))
