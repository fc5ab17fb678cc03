"""Keys: found by what is at hand, told why a call was not run, and released or cancelled with a reason."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client

from django_idempotent_tasks.admin.lists import window
from django_idempotent_tasks.admin.words import wording
from django_idempotent_tasks.identity.key import Identity, stated_digest
from django_idempotent_tasks.ledger.stores.clock import shifted
from django_idempotent_tasks.ledger.values import Call, Claim
from django_idempotent_tasks.states import Category, Reason, State
from django_idempotent_tasks.testing.contract.bench import a_failure
from tests.admin.conftest import HOSTILE, Person, at_most, logged, messages_of, page, seen
from tests.support.keys import Keys

pytestmark = pytest.mark.django_db
KEY = "idempotencykey"
WHY = "host 7 is on fire"


def hostile_key(keys: Keys) -> Claim:
    """A key with hostile text wherever a task can put some."""
    message = '{"v": 1, "args": ["<script>alert(1)</script>\\u202e"], "kwargs": {}, "options": {}}'
    identity = Identity(uuid4(), HOSTILE, HOSTILE, None)
    claim = keys.claimed(Call(identity, HOSTILE, HOSTILE, message))
    assert keys.store().keep_step(claim, HOSTILE[:100], value=json.dumps(HOSTILE), elapsed=1.0)
    keys.in_columns(claim, owner=HOSTILE[:80], runner_task_id=HOSTILE, progress=HOSTILE)
    return claim


def inert(html: str) -> None:
    """No text of a task acts."""
    for part in ("<script>alert", "<img src=x", "\x1b", "\u202e"):
        assert part not in html
    assert "&lt;script&gt;" in html
    assert "\\u202e" in html


def test_hostile_text_is_inert_on_every_page_of_a_key(root: Client, keys: Keys) -> None:
    claim = hostile_key(keys)
    other = keys.call("other", of=claim.call, scope=HOSTILE)
    keys.store().record_duplicate(other, place="worker", reason="in_progress")
    inert(root.get(page(KEY)).content.decode())
    filtered = root.get(page(KEY), {"task": HOSTILE, "scope": HOSTILE}).content.decode()
    assert "<script>alert" not in filtered
    assert len(root.get(page(KEY), {"task": HOSTILE}).context["cl"].result_list) == 1
    for name in ("change", "release", "cancel"):
        inert(root.get(page(KEY, name, claim.digest)).content.decode())
    keys.in_columns(claim, owner=claim.owner)
    assert keys.fail(claim, failure=a_failure(HOSTILE, HOSTILE, traceback=HOSTILE))
    inert(root.get(page(KEY, "change", claim.digest)).content.decode())


def test_a_held_key_is_told_by_its_holder_its_attempt_its_lease_and_what_happens_next(
    root: Client, keys: Keys
) -> None:
    claim = keys.claimed(lease=60)
    duplicate = keys.call("refused-call", of=claim.call)
    keys.store().record_duplicate(duplicate, place="worker", reason="in_progress")
    with shifted(20):
        shown = root.get(page(KEY, "change", claim.digest))
    assert shown.context["answer"].startswith(
        "This key is held by a process of an unknown worker (pid 1), which runs call A: attempt 1"
    )
    assert "a process of an unknown worker (pid 1), since " in dict(shown.context["facts"])["holder"]
    assert claim.owner not in shown.content.decode()
    assert re.search(r"\blease (40|[1-3]\d) s left", shown.context["answer"])
    assert "should it fall silent" in shown.context["next"]
    assert [each["task_id"] for each in shown.context["refused"]] == ["refused-call"]
    assert "Why was a call of this key not run?" in shown.content.decode()
    with shifted(99):
        assert "has fallen silent" in root.get(page(KEY, "change", claim.digest)).context["answer"]


def test_a_key_of_which_no_call_was_refused_is_not_asked_why(root: Client, keys: Keys) -> None:
    shown = root.get(page(KEY, "change", keys.claimed().digest)).content.decode()
    assert "How it stands" in shown
    assert "not run?" not in shown


def test_each_state_has_an_answer_and_the_attempts_are_in_order(root: Client, keys: Keys) -> None:
    claim = keys.claimed()
    assert keys.store().retry(
        claim,
        message=None,
        reason=Reason.RETRY_ASKED,
        wait=0,
        republish=300,
        failure=a_failure("shop.First"),
    )
    assert (
        "waits for its next attempt, after 1" in root.get(page(KEY, "change", claim.digest)).context["answer"]
    )
    assert keys.fail(keys.started(claim.call), failure=a_failure("shop.Second", "no funds"))
    shown = root.get(page(KEY, "change", claim.digest)).context
    assert "failed for good" in shown["answer"]
    assert "no funds" in shown["answer"]
    errors = [event.text.rpartition(": ")[2] for event in shown["events"] if event.is_failure]
    assert errors == ["shop.First", "shop.Second"]
    for state in State:
        keys.in_columns(claim, state=state)
        assert root.get(page(KEY, "change", claim.digest)).status_code == 200


def test_a_release_is_confirmed_carried_out_as_seen_and_logged(root: Client, keys: Keys) -> None:
    claim = keys.claimed()
    url = page(KEY, "release", claim.digest)
    with keys.untouched(claim):
        asked = root.get(url)
        assert "a process of an unknown worker (pid 1), since " in asked.content.decode()
        assert "the ledger refuses its completion" in asked.content.decode()
        assert root.post(url, {"seen": str(keys.row(claim).token), "reason": " "}).status_code == 400
        assert root.get(url, {"seen": "1", "reason": WHY}).status_code == 200
    told = root.post(url, {"seen": seen(root, url), "reason": WHY}, follow=True)
    assert "Released." in messages_of(told)
    assert keys.row(claim).state == State.RETRY
    assert keys.complete(claim) is False
    assert logged() == [f"Release the key: {WHY}"]


def test_the_history_of_a_key_tells_who_did_what_and_is_inert(root: Client, keys: Keys) -> None:
    claim = hostile_key(keys)
    url = page(KEY, "release", claim.digest)
    root.post(url, {"seen": seen(root, url), "reason": HOSTILE})
    shown = root.get(page(KEY, "history", claim.digest)).content.decode()
    inert(shown)
    assert "Release the key" in shown
    assert "root" in shown
    inert(root.get("/admin/").content.decode())


def test_of_two_operators_the_second_is_told_what_happened(root: Client, person: Person, keys: Keys) -> None:
    claim = keys.claimed()
    url = page(KEY, "release", claim.digest)
    second = person("view_idempotencykey", "release_key")
    mark = seen(second, url)
    root.post(url, {"seen": seen(root, url), "reason": WHY})
    heir = keys.taken_over(claim.call)
    told = second.post(url, {"seen": mark, "reason": WHY}, follow=True)
    assert "has moved on and is RUNNING now" in messages_of(told)
    assert keys.row(heir).owner == heir.owner
    assert len(logged()) == 1


def test_a_cancel_ends_the_call_that_was_seen_and_no_later_one(root: Client, keys: Keys) -> None:
    claim = keys.claimed()
    url = page(KEY, "cancel", claim.digest)
    mark = seen(root, url)
    keys.cancelled(claim)
    heir = keys.claimed_anew(keys.call("B", of=claim.call))
    told = root.post(url, {"seen": mark, "reason": WHY}, follow=True)
    assert "has moved on and is RUNNING now (call B)" in messages_of(told)
    assert keys.row(heir).state == State.RUNNING
    told = root.post(url, {"seen": seen(root, url), "reason": WHY}, follow=True)
    assert "Cancelled." in messages_of(told)
    assert keys.row(heir).state == State.CANCELLED
    assert "Nothing to cancel" in messages_of(root.get(url, follow=True))


def test_permissions_hide_what_they_forbid(person: Person, keys: Keys) -> None:
    claim = keys.claimed(keys.call(message='{"v": 1, "args": ["4242"], "kwargs": {}, "options": {}}'))
    viewer = person("view_idempotencykey")
    shown = viewer.get(page(KEY, "change", claim.digest))
    assert shown.context["actions"] == []
    assert "4242" not in shown.content.decode().replace(str(claim.digest), "")
    with keys.untouched(claim):
        for name in ("release", "cancel"):
            url = page(KEY, name, claim.digest)
            assert viewer.get(url).status_code == 403
            assert viewer.post(url, {"seen": "1", "reason": WHY}).status_code == 403
    payload = person("view_idempotencykey", "view_payload", name="eve")
    assert "4242" in payload.get(page(KEY, "change", claim.digest)).content.decode()
    nobody = person(name="bob")
    assert nobody.get(page(KEY)).status_code == 403
    assert nobody.get(page(KEY, "change", claim.digest)).status_code == 403
    assert Client().get(page(KEY, "release", claim.digest)).status_code == 302


@pytest.mark.parametrize("view", ["change", "history", "release"])
def test_who_may_see_no_key_does_not_learn_whether_one_is_there(
    person: Person, keys: Keys, view: str
) -> None:
    ann, there = person(), keys.claimed().digest
    assert {ann.get(page("idempotencykey", view, digest)).status_code for digest in (there, uuid4())} == {403}


def test_a_key_is_found_by_task_id_by_digest_and_within_its_task_by_its_text(
    root: Client, keys: Keys
) -> None:
    digest = stated_digest("shop.charge", idempotency_key="evt_1", scope=None)
    keys.claimed(Call(Identity(digest, None, "evt_1 short", None), "shop.charge", "call-1", None))
    other = keys.claimed(Call(Identity(uuid4(), None, "evt_2", None), "shop.charge", "call-2", None))
    queries: tuple[dict[str, str], ...] = (
        {"q": "call-1"},
        {"q": str(digest)},
        {"q": "evt_1", "task": "shop.charge"},
        {"q": "evt_1 short", "task": "shop.charge"},
    )
    for query in queries:
        assert [row.pk for row in root.get(page(KEY), query).context["cl"].result_list] == [digest]
    assert [row.pk for row in root.get(page(KEY), {"q": "evt_1"}).context["cl"].result_list] == [digest]
    keys.cancelled(other)
    keys.claimed_anew(keys.call("later", of=other.call))
    found = root.get(page(KEY), {"q": "call-2"}).context["cl"].result_list
    assert [row.pk for row in found] == [other.digest], "also by a call that was replaced"


def test_filters_leave_what_they_name_and_say_how_far_they_looked(
    root: Client, keys: Keys, monkeypatch: Any
) -> None:
    claims = []
    for number, (task, scope) in enumerate((("a", "x"), ("b", "x"), ("a", "y"), ("a", "x"))):
        claim = keys.claimed(Call(Identity(uuid4(), scope, "k", None), task, f"T{number}", None))
        keys.in_columns(claim, created_at=keys.now(claim) - timedelta(seconds=100 * number))
        claims.append(claim)

    def listed(**query: Any) -> tuple[list[int], bool]:
        cl = root.get(page(KEY), query).context["cl"]
        order = [claim.digest for claim in claims]
        return [order.index(row.pk) for row in cl.result_list], cl.is_all

    assert listed() == ([0, 1, 2, 3], True)
    assert listed(task="a") == ([0, 2, 3], True)
    assert listed(task="a", scope="x") == ([0, 3], True)
    assert listed(state=int(State.RUNNING), task="a") == ([0, 2, 3], True)
    assert listed(state=int(State.RETRY)) == ([], True)
    assert listed(made="over-1h") == ([], True)
    assert listed(task="a\0b") == ([], True)
    monkeypatch.setattr(window, "WINDOW", 2)
    assert listed(state=int(State.RUNNING), task="a") == ([0, 2, 3], True), "of a few all are looked at"
    monkeypatch.setattr(window, "FEW", 1)
    assert set(listed(state=int(State.RUNNING))[0]) == {0, 1, 2, 3}
    assert listed() == ([0, 1], False), "periodic runs are left out of the newest"
    assert listed(periodic="shown") == ([0, 1, 2, 3], True)
    assert listed(task="a") == ([0], False)
    assert listed(state=int(State.RUNNING), task="a") == ([0], False)
    keys.in_columns(claims[3], state=State.RETRY)
    assert listed(state=int(State.RETRY), task="a") == ([3], True), "of a rare state all are looked at"
    assert root.get(page(KEY), {"state": "x", "made": "y", "p": "z"}).status_code == 200
    assert root.get(page(KEY), {"task__contains": "a"}).status_code == 400


def test_pages_take_a_bounded_number_of_statements(root: Client, keys: Keys) -> None:
    claims = [keys.claimed() for _ in range(30)]
    for claim in claims[:10]:
        assert keys.fail(claim)
    root.get(page(KEY))
    with at_most(8):
        root.get(page(KEY))
    with at_most(9):
        root.get(page(KEY), {"state": str(int(State.FAILED)), "task": "shop.charge"})
    with at_most(14):
        root.get(page(KEY), {"q": "A"})
    with at_most(9):
        root.get(page(KEY, "change", claims[0].digest))


def test_the_filters_that_were_set_are_kept_over_an_action(root: Client, keys: Keys) -> None:
    claim = keys.claimed()
    kept = "_changelist_filters=task%3Dshop.charge"
    url = f"{page(KEY, 'cancel', claim.digest)}?{kept}"
    shown = root.get(f"{page(KEY, 'change', claim.digest)}?{kept}")
    assert [link["url"] for link in shown.context["actions"]][1] == url
    assert shown.context["list_url"] == f"{page(KEY)}?task=shop.charge"
    told = root.post(url, {"seen": seen(root, url), "reason": WHY})
    assert told.headers["Location"] == f"{page(KEY, 'change', claim.digest)}?{kept}"


def test_a_page_names_no_command_where_it_has_a_link(root: Client, keys: Keys) -> None:
    claim = keys.claimed()
    assert keys.fail(claim)
    shown = root.get(page(KEY, "change", claim.digest))
    assert "A redrive runs this call again." in shown.context["next"]
    assert "idem dead-letters" not in shown.content.decode()
    assert shown.context["letter_url"] == page("deadletter", "change", claim.digest)


def test_whatever_a_row_can_hold_has_a_word() -> None:
    assert all(wording.reason_word(reason) for reason in Reason)
    assert all(wording.state_word(state) for state in State)
    assert all(wording.category_word(category) for category in Category)
