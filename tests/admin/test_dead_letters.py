"""Dead letters: grouped, shown to those who may see them, and decided about one by one."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from django_idempotent_tasks.ledger.values import Claim
from django_idempotent_tasks.models import FailedJob
from django_idempotent_tasks.states import Reason, State
from django_idempotent_tasks.testing.contract.bench import a_failure
from tests.admin.conftest import HOSTILE, Person, at_most, logged, messages_of, page, seen
from tests.admin.test_keys import hostile_key, inert
from tests.support.keys import Keys

pytestmark = pytest.mark.django_db
DEAD = "deadletter"
WHY = "the gateway is back"


def dead(keys: Keys, *, state: State = State.FAILED, message: str | None = None, **failure: Any) -> Claim:
    """A dead letter."""
    claim = keys.claimed(keys.call("call-1", message=message) if message else keys.call("call-1"))
    assert keys.fail(claim, state=state, failure=a_failure(**failure))
    return claim


def decide(client: Client, verb: str, claim: Claim, **fields: str) -> str:
    """Answer the page; what was told."""
    url = page(DEAD, verb, claim.digest)
    told = client.post(url, {"seen": seen(client, url), "reason": WHY, **fields}, follow=True)
    return messages_of(told)


def test_hostile_text_is_inert(root: Client, keys: Keys) -> None:
    claim = hostile_key(keys)
    keys.in_columns(claim, owner=claim.owner)
    assert keys.fail(claim, failure=a_failure(HOSTILE, HOSTILE, traceback=HOSTILE))
    inert(root.get(page(DEAD)).content.decode())
    for name in ("change", "redrive", "discard", "resolve"):
        inert(root.get(page(DEAD, name, claim.digest)).content.decode())
    inert(root.get(page(DEAD, "redrive_many")).content.decode())


def test_a_redrive_is_the_same_call_pending_again(root: Client, keys: Keys) -> None:
    claim = dead(keys)
    with keys.untouched(claim):
        assert "The same call runs again" in root.get(page(DEAD, "redrive", claim.digest)).content.decode()
    assert "Redriven" in decide(root, "redrive", claim)
    row = keys.row(claim)
    assert (row.state, row.task_id, row.attempts) == (State.PENDING, "call-1", 0)
    assert logged() == [f"Redrive: {WHY}"]


def test_the_second_of_two_operators_is_told_what_happened(root: Client, person: Person, keys: Keys) -> None:
    claim = dead(keys)
    second = person("view_deadletter", "redrive_deadletter", "discard_deadletter")
    marks = {verb: seen(second, page(DEAD, verb, claim.digest)) for verb in ("redrive", "discard")}
    decide(root, "redrive", claim)
    for verb, mark in marks.items():
        url = page(DEAD, verb, claim.digest)
        told = second.post(url, {"seen": mark, "reason": WHY}, follow=True)
        assert "has moved on and is PENDING now (call call-1)" in messages_of(told)
        assert "has moved on and is PENDING" in messages_of(second.get(url, follow=True))
    assert keys.row(claim).state == State.PENDING
    assert len(logged()) == 1


def test_what_failed_once_more_since_it_was_seen_is_left_alone(root: Client, keys: Keys) -> None:
    claim = dead(keys)
    marks = {verb: seen(root, page(DEAD, verb, claim.digest)) for verb in ("redrive", "discard", "resolve")}
    decide(root, "redrive", claim)
    assert keys.fail(keys.started(claim.call))
    for verb, mark in marks.items():
        told = root.post(page(DEAD, verb, claim.digest), {"seen": mark, "reason": WHY}, follow=True)
        assert "has moved on and is FAILED now" in messages_of(told)
    row = keys.row(claim)
    assert (row.state, row.discarded_at) == (State.FAILED, None)


def test_a_discarded_one_leaves_the_list_and_keeps_its_record(root: Client, keys: Keys) -> None:
    claim = dead(keys)
    assert "Discarded" in decide(root, "discard", claim)
    assert list(root.get(page(DEAD)).context["cl"].result_list) == []
    assert keys.row(claim).discarded_at is not None
    assert "discarded meanwhile" in messages_of(root.get(page(DEAD, "discard", claim.digest), follow=True))


def test_a_review_is_resolved_with_a_result_that_must_be_json(root: Client, keys: Keys) -> None:
    claim = dead(keys, state=State.REVIEW)
    url = page(DEAD, "resolve", claim.digest)
    for wrong in ("{ref: 7}", "NaN", "1e999", '{"__type__": "no", "__value__": 1}', "[" * 9000):
        refused = root.post(url, {"seen": seen(root, url), "reason": WHY, "result": wrong})
        assert refused.status_code == 400
        assert "This is not JSON" in refused.content.decode()
    too_long = root.post(url, {"seen": seen(root, url), "reason": WHY, "result": f'"{"x" * 70_000}"'})
    assert "at most 65536 characters" in too_long.content.decode()
    assert keys.row(claim).state == State.REVIEW
    assert "Marked as done" in decide(root, "resolve", claim, result='{"ref": 12345678901234567890}')
    row = keys.row(claim)
    assert (row.state, row.reason, row.result) == (
        State.SUCCEEDED,
        Reason.DONE,
        '{"ref": 12345678901234567890}',
    )


def test_each_decision_needs_its_permission_and_a_review_its_own(person: Person, keys: Keys) -> None:
    failed, review = dead(keys), dead(keys, state=State.REVIEW)
    viewer = person("view_deadletter")
    assert viewer.get(page(DEAD, "change", failed.digest)).context["actions"] == []
    redriver = person("view_deadletter", "redrive_deadletter", "discard_deadletter", name="eve")
    labels = [link["label"] for link in redriver.get(page(DEAD, "change", failed.digest)).context["actions"]]
    assert labels == ["Redrive", "Discard"]
    assert redriver.get(page(DEAD, "change", review.digest)).context["actions"] == []
    reviewer = person("view_deadletter", "resolve_review", name="bob")
    assert len(reviewer.get(page(DEAD, "change", review.digest)).context["actions"]) == 3
    with keys.untouched(failed, review):
        for client, claim in ((viewer, failed), (redriver, review)):
            for verb in ("redrive", "discard", "resolve"):
                url = page(DEAD, verb, claim.digest)
                assert client.get(url).status_code == 403
                assert client.post(url, {"seen": "1", "reason": WHY}).status_code == 403
        assert (
            reviewer.post(page(DEAD, "redrive", failed.digest), {"seen": "1", "reason": WHY}).status_code
            == 403
        )


def test_other_arguments_need_their_permission_and_keep_the_key(
    root: Client, person: Person, keys: Keys
) -> None:
    claim = dead(keys)
    redriver = person("view_deadletter", "redrive_deadletter")
    assert "arguments" not in redriver.get(page(DEAD, "redrive", claim.digest)).context["form"].fields
    url = page(DEAD, "redrive", claim.digest)
    for wrong in ("[1]", '{"args": 7}', "{}", "nonsense", '{"args": [Infinity]}', '{"args": [-1e999]}'):
        refused = root.post(url, {"seen": seen(root, url), "reason": WHY, "arguments": wrong})
        assert refused.status_code == 400
    told = decide(redriver, "redrive", claim, arguments='{"args": [999]}')
    assert "Redriven" in told
    assert '"args": [7]' in str(keys.row(claim).message), "a field that is not offered is not read"
    keys.store().cancel(claim.digest, window=9)
    other = dead(keys)
    decide(root, "redrive", other, arguments='{"args": [8], "kwargs": {"amount": "9.90"}}')
    assert '"args": [8], "kwargs": {"amount": "9.90"}' in str(keys.row(other).message)
    assert logged()[0] == f"Redrive with other arguments: {WHY}"


def test_what_would_make_it_fail_again_is_said_before(root: Client, keys: Keys) -> None:
    unknown = dead(keys)
    assert (
        "may have been renamed or removed" in root.get(page(DEAD, "redrive", unknown.digest)).content.decode()
    )
    unsendable = dead(keys)
    keys.in_columns(unsendable, message=None)
    assert "message is not stored" in root.get(page(DEAD, "redrive", unsendable.digest)).content.decode()
    assert "message is not stored" in decide(root, "redrive", unsendable)
    assert keys.row(unsendable).state == State.FAILED


def test_traceback_and_arguments_are_for_those_who_may_see_them(person: Person, keys: Keys) -> None:
    message = '{"v": 1, "args": ["4242"], "kwargs": {}, "options": {}}'
    claim = dead(keys, message=message, traceback="shop.py, line 7")
    url = page(DEAD, "change", claim.digest)
    plain = person("view_deadletter").get(url).content.decode().replace(str(claim.digest), "")
    assert "line 7" not in plain
    assert "4242" not in plain
    full = person("view_deadletter", "view_payload", "view_traceback", name="eve").get(url).content.decode()
    assert "line 7" in full
    assert "4242" in full
    assert FailedJob.objects.get(digest=claim.digest).traceback == "shop.py, line 7"


def test_pages_take_a_bounded_number_of_statements(root: Client, keys: Keys) -> None:
    claims = [dead(keys) for _ in range(25)]
    root.get(page(DEAD))
    for url, most in (
        (page(DEAD), 8),
        (f"{page(DEAD)}?signature={'0' * 16}&ended=24h", 8),
        (page(DEAD, "change", claims[0].digest), 9),
    ):
        with at_most(most):
            root.get(url)


def test_a_form_that_was_changed_on_its_way_is_a_bad_request(root: Client, keys: Keys) -> None:
    claim, held = dead(keys), keys.claimed()
    with keys.untouched(claim, held):
        for verb in ("redrive", "discard", "resolve"):
            for mark in ("x", str(2**70), "\u0663", "-1"):
                told = root.post(page(DEAD, verb, claim.digest), {"seen": mark, "reason": WHY})
                assert (told.status_code, "was changed" in told.content.decode()) == (400, True)
        for mark in ("[" * 2000, '"\\u0000"', '"\\ud800"', "7", "x"):
            url = page("idempotencykey", "cancel", held.digest)
            assert root.post(url, {"seen": mark, "reason": WHY}).status_code == 400


def test_what_redact_gives_and_json_cannot_hold_is_hidden_and_the_page_says_so(
    root: Client, keys: Keys, settings: Any
) -> None:
    message = '{"v": 1, "args": ["4242"], "kwargs": {}, "options": {}}'
    claim = dead(keys, message=message)
    for given, told in (
        (lambda _task, found: {"card": {found["0"]}}, "not shown: set"),
        (lambda _task, found: {"card": {("a", found["0"]): 1}}, "not shown: dict"),
        (lambda _task, found: {("card", found["0"]): 1}, "REDACT must return a dict"),
        (lambda _task, found: [found["0"]], "REDACT must return a dict"),
    ):
        settings.IDEMPOTENT_TASKS = {"REDACT": given}
        shown = root.get(page(DEAD, "change", claim.digest))
        assert shown.status_code == 200
        assert told in shown.content.decode()
        assert "4242" not in shown.content.decode()
