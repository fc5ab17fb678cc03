"""The list of dead letters: grouped, filtered, in bounds, each kind where it is looked for."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from django_idempotent_tasks.admin.dead_letters import DeadLetterAdmin
from django_idempotent_tasks.operations import groups
from django_idempotent_tasks.states import Category, Reason, State
from django_idempotent_tasks.testing.contract.bench import MESSAGE
from tests.admin.conftest import page
from tests.admin.test_dead_letters import DEAD, dead, decide
from tests.support.keys import Keys

pytestmark = pytest.mark.django_db


def test_groups_count_by_error_and_age_and_lead_to_the_list_that_they_count(root: Client, keys: Keys) -> None:
    new = dead(keys, error="shop.Timeout", signature="a" * 16)
    old = dead(keys, error="shop.Timeout", signature="a" * 16)
    keys.in_columns(old, finished_at=keys.now(old) - timedelta(hours=30))
    dead(keys, error="shop.Declined", signature="b" * 16)
    rows = root.get(page(DEAD)).context["groups"]["rows"]
    shown = [(row["error"].replace("<wbr>", ""), [number for number, _query in row["cells"]]) for row in rows]
    assert shown == [
        ("shop.Timeout", [1, 1, 2, 2]),
        ("shop.Declined", [1, 1, 1, 1]),
    ]
    for number, query in rows[0]["cells"]:
        found = root.get(f"{page(DEAD)}?{query}").context["cl"].result_list
        assert len(found) == number
        assert new.digest in {row.pk for row in found}


def test_groups_say_when_more_dead_letters_exist_than_were_counted(
    root: Client, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups, "BOUND", 2)
    monkeypatch.setattr(groups, "SHOWN", 1)
    for letter in "ab":
        dead(keys, error="shop.Timeout", signature=letter * 16)
    assert root.get(page(DEAD)).context["groups"]["is_all"]
    dead(keys, error="shop.Timeout", signature="c" * 16)
    assert not root.get(page(DEAD)).context["groups"]["is_all"]


def test_filters_leave_what_they_name(root: Client, keys: Keys) -> None:
    plain = dead(keys, category=Category.FATAL)
    review = dead(keys, state=State.REVIEW, category=Category.MANUAL_REVIEW)

    def listed(**query: str) -> set[Any]:
        return {row.pk for row in root.get(page(DEAD), query).context["cl"].result_list}

    assert listed() == {plain.digest, review.digest}
    assert listed(state="4") == {review.digest}
    assert listed(category="1") == {plain.digest}
    assert listed(task="shop.refund") == set()
    assert listed(q="call-1") == {plain.digest, review.digest}
    assert listed(q=str(plain.digest)) == {plain.digest}
    assert listed(ended="over-1h") == set()


def test_an_expected_end_is_in_no_list_but_its_own_and_can_be_redriven_from_its_page(
    root: Client, keys: Keys
) -> None:
    fatal = dead(keys, category=Category.FATAL)
    expected = dead(keys, message=MESSAGE, category=Category.EXPECTED, signature="x" * 16)
    keys.in_columns(expected, reason=Reason.EXPECTED)

    def listed(**query: str) -> set[Any]:
        return {row.pk for row in root.get(page(DEAD), query).context["cl"].result_list}

    assert (listed(), listed(category="4")) == ({fatal.digest}, {expected.digest})
    assert listed(signature="x" * 16) == {expected.digest}
    assert len(root.get(page(DEAD)).context["groups"]["rows"]) == 1
    assert "Nobody has to decide." in root.get(page(DEAD, "change", expected.digest)).content.decode()
    assert "Redriven" in decide(root, "redrive", expected)
    assert keys.row(expected).state == State.PENDING


def test_filters_that_no_index_serves_look_at_what_ended_last_and_say_so(
    root: Client, keys: Keys, monkeypatch: Any
) -> None:
    claims = [dead(keys, category=Category.FATAL) for _ in range(3)]
    for number, claim in enumerate(claims):
        keys.in_columns(claim, finished_at=keys.now(claim) - timedelta(seconds=100 * number))
    monkeypatch.setattr(DeadLetterAdmin, "looked_at", 2)
    monkeypatch.setattr(DeadLetterAdmin, "list_per_page", 2)
    found = root.get(page(DEAD), {"category": "1"})
    assert [row.pk for row in found.context["cl"].result_list] == [claim.digest for claim in claims[:2]]
    assert "look only at the newest 2 rows" in found.content.decode()
    for which, expected in (("1", claims[:2]), ("2", claims[2:])):
        found = root.get(page(DEAD), {"p": which})
        assert [row.pk for row in found.context["cl"].result_list] == [claim.digest for claim in expected]
        assert found.context["cl"].is_all


def test_discarded_ones_have_a_list_and_pages_of_their_own_and_can_be_redriven(
    root: Client, keys: Keys
) -> None:
    claim, waits = dead(keys), dead(keys)
    decide(root, "discard", claim)
    found = root.get(page(DEAD), {"discarded": "1"})
    assert [row.pk for row in found.context["cl"].result_list] == [claim.digest]
    assert (found.context["list_actions"], found.context["action_form"]) == ([], None)
    assert "those that wait" in found.content.decode()
    shown = root.get(page(DEAD, "change", claim.digest))
    assert shown.context["discarded_url"] == f"{page(DEAD)}?discarded=1"
    assert [link["label"] for link in shown.context["actions"]] == ["Redrive"]
    with keys.untouched(claim, waits):
        assert root.get(page(DEAD, "redrive_many"), {"discarded": "1"}).status_code == 400
    assert "Redriven" in decide(root, "redrive", claim)
    assert (keys.row(claim).state, keys.row(claim).discarded_at) == (State.PENDING, None)
    assert list(root.get(page(DEAD), {"discarded": "1"}).context["cl"].result_list) == []
