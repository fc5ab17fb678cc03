"""``submit_response``: each cell of the table, and nothing a client sends is a server error."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import OperationalError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from django_idempotent_tasks.ledger.stores.postgresql import PostgresStore
from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.states import Reason, State
from django_idempotent_tasks.testing.contract.bench import a_failure
from tests.sending.http import urls
from tests.sending.http.conftest import Visitor
from tests.support.ledger.quick import EVERY_APP
from tests.support.post import Post, no_broker, only_row

pytestmark = pytest.mark.django_db(transaction=True, available_apps=EVERY_APP)

each_kind_of_view = pytest.mark.parametrize("path", ["/plans/", "/aplans/"], ids=["plain", "async"])


@each_kind_of_view
def test_new_work_is_accepted_and_sent_once(ann: Visitor, post: Post, path: str) -> None:
    answer = ann.submit(path=path)
    job = answer.json()
    assert (answer.status_code, job["state"], job["task"]) == (202, "pending", "plans.generate")
    assert answer["Location"] == f"/jobs/{job['id']}/"
    assert job["cancel_url"] == f"/jobs/{job['id']}/cancel/"
    assert [message["id"] for message in post.arrived()] == [job["id"]]


@each_kind_of_view
def test_a_second_click_is_refused_with_the_job_that_runs(ann: Visitor, post: Post, path: str) -> None:
    first = ann.submit(path=path)
    second = ann.submit(path=path)
    assert (second.status_code, second["Content-Type"]) == (409, "application/problem+json")
    assert second.json()["job"]["id"] == first.json()["id"]
    assert second["Location"] == first["Location"]
    assert 1 <= int(second["Retry-After"]) <= 10
    assert len(post.arrived()) == 1


@pytest.mark.parametrize("state", [State.RUNNING, State.RETRY])
def test_it_is_refused_as_long_as_the_first_is_unfinished(ann: Visitor, state: State) -> None:
    ann.submit()
    IdempotencyKey.objects.update(state=state)
    assert ann.submit().status_code == 409


def test_finished_work_is_answered_with_its_result(ann: Visitor, post: Post, task: Any) -> None:
    first = ann.submit()
    post.work(task)
    answer = ann.submit()
    assert (answer.status_code, answer["Idempotent-Replayed"]) == (200, "true")
    assert (answer.json()["id"], answer.json()["state"]) == (first.json()["id"], "succeeded")
    assert (answer.json()["result"], answer.json()["cancel_url"]) == (7, None)


@pytest.mark.parametrize("state", [State.FAILED, State.REVIEW])
def test_failed_work_is_answered_with_its_error_and_no_traceback(
    ann: Visitor, post: Post, state: State
) -> None:
    ann.submit()
    post.arrived()
    text = '{"error": "shop.CardDeclined", "message": "no funds"}'
    IdempotencyKey.objects.update(state=state, reason=6, result=text, signature=a_failure().signature)
    answer = ann.submit()
    assert (answer.status_code, answer["Idempotent-Replayed"]) == (200, "true")
    assert answer.json()["error"] == "shop.CardDeclined: no funds"
    assert "Traceback" not in answer.content.decode()


def test_another_payload_under_the_key_is_refused_and_changes_nothing(ann: Visitor, post: Post) -> None:
    ann.submit(order_id=7)
    before = only_row().token
    answer = ann.submit(order_id=8)
    assert (answer.status_code, answer["Content-Type"]) == (422, "application/problem+json")
    assert (only_row().token, len(post.arrived())) == (before, 1)


def test_a_quoted_and_a_bare_key_are_the_same(ann: Visitor) -> None:
    assert [ann.submit(key).status_code for key in ('"k1"', "k1", ' "k1" ')] == [202, 409, 409]


@pytest.mark.parametrize(
    "key", [None, "", '""', "x" * 256, '"a', 'a"b', "two words", '"a\\n"', "a\u00e4"], ids=repr
)
def test_a_missing_or_bad_key_is_a_bad_request(ann: Visitor, key: str | None) -> None:
    answer = ann.submit(key)
    assert (answer.status_code, answer["Content-Type"]) == (400, "application/problem+json")
    assert "Idempotency-Key" in answer.json()["detail"]
    assert not IdempotencyKey.objects.exists()


def test_the_view_may_give_the_key_itself(ann: Visitor) -> None:
    urls.STATED["key"] = "plan-of-ann"
    assert [ann.submit(key).status_code for key in (None, "other")] == [202, 409]


def test_a_key_of_the_view_is_the_task_s_own_where_it_has_the_same_values(ann: Visitor, task: Any) -> None:
    urls.STATED.update(key=7, scope="tenant-42")
    assert ann.submit(None).status_code == 202
    task.apply_async(kwargs={"order_id": 7}, scope="tenant-42")
    assert IdempotencyKey.objects.count() == 1


def test_work_that_the_view_names_is_run_again_once_its_retries_were_used_up(ann: Visitor) -> None:
    urls.STATED["key"] = "plan-of-ann"
    first = ann.submit(None).json()["id"]
    for reason, status in ((Reason.PERMANENT, 200), (Reason.RETRIES_USED_UP, 202)):
        IdempotencyKey.objects.update(state=State.FAILED, reason=reason, result="{}", signature="ab")
        again = ann.submit(None)
        assert (again.status_code, again.json()["id"] == first) == (status, status == 200)


def test_a_broker_that_is_away_costs_no_client_its_job(ann: Visitor, post: Post) -> None:
    with no_broker(post):
        assert [ann.submit().status_code, ann.submit().status_code] == [202, 409]
    post.sweep()
    assert [message["id"] for message in post.arrived()] == [only_row().task_id]


def test_a_request_that_is_rolled_back_has_accepted_nothing(ann: Visitor, post: Post) -> None:
    assert ann.submit(path="/broken/").status_code == 500
    assert (IdempotencyKey.objects.count(), post.arrived()) == (0, [])
    assert ann.submit().status_code == 202


def test_a_key_belongs_to_who_is_signed_in(ann: Visitor) -> None:
    assert [visitor.submit().status_code for visitor in (ann, Visitor("bob"), ann)] == [202, 202, 409]


def test_a_scope_of_the_view_stands_for_the_user(task: Any) -> None:  # noqa: ARG001
    urls.STATED["scope"] = "tenant-42"
    assert [Visitor().submit().status_code, Visitor("bob").submit().status_code] == [202, 409]
    assert only_row().scope == "tenant-42"


def test_nobody_in_particular_has_no_key(task: Any) -> None:  # noqa: ARG001
    assert Visitor().submit().status_code == 401
    assert not IdempotencyKey.objects.exists()


def test_a_ledger_that_is_down_is_said_so_and_nothing_was_sent(
    ann: Visitor, post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_arguments: Any, **_named: Any) -> int:
        raise OperationalError

    monkeypatch.setattr(PostgresStore, "reserve_new", refuse)
    answer = ann.submit()
    assert (answer.status_code, answer["Retry-After"]) == (503, "5")
    assert post.arrived() == []


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
_HEADER = st.text(st.characters(min_codepoint=32, max_codepoint=255), max_size=300)


@pytest.mark.thorough
@given(key=_HEADER, order=_JSON)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_a_client_sends_is_no_server_error(ann: Visitor, key: str, order: Any) -> None:
    assert ann.submit(key, order_id=order).status_code in {200, 202, 400, 409, 422}


def test_a_request_that_is_sent_again_after_a_failure_is_answered_and_runs_nothing(
    ann: Visitor, post: Post
) -> None:
    first = ann.submit()
    post.arrived()
    text = '{"error": "shop.Timeout", "message": "gone"}'
    IdempotencyKey.objects.update(state=State.FAILED, reason=5, result=text, signature=a_failure().signature)
    again, other = ann.submit(), ann.submit(order_id=8)
    assert (again.status_code, again.json()["id"]) == (200, first.json()["id"])
    assert (other.status_code, only_row().state, post.arrived()) == (422, State.FAILED, [])


@pytest.mark.parametrize("body", ['{"nope": 1}', "[1]", '"abc"', "{}", "7", "null"])
def test_arguments_that_do_not_fit_are_a_bad_request(ann: Visitor, post: Post, body: str) -> None:
    headers = {"Idempotency-Key": "k1"}
    answer = ann.client.post("/plans/", body, content_type="application/json", headers=headers)
    assert (answer.status_code, answer["Content-Type"]) == (400, "application/problem+json")
    assert (IdempotencyKey.objects.count(), post.arrived()) == (0, [])


@pytest.mark.parametrize(
    ("stored", "shown"),
    [
        ("NaN", None),
        ('{"a": Infinity}', {"a": None}),
        ('{"__type__": "bytes", "__value__": "eA=="}', "eA=="),
        ('{"__type__": "bytes", "__value__": "x"}', "x"),
        ("[1, 12345678901234567890]", [1, 12345678901234567890]),
    ],
)
def test_a_result_of_any_kind_is_shown_as_json(ann: Visitor, post: Post, stored: str, shown: Any) -> None:
    url = ann.submit()["Location"]
    post.arrived()
    IdempotencyKey.objects.update(state=State.SUCCEEDED, reason=1, result=stored)
    for answer in (ann.get(url), ann.submit()):
        assert (answer.status_code, answer.json()["result"]) == (200, shown)
        assert "NaN" not in answer.content.decode()


def test_arguments_that_no_row_can_hold_are_too_large_and_the_remedy_is_named(
    ann: Visitor, post: Post, settings: Any
) -> None:
    settings.IDEMPOTENT_TASKS = {"MAX_PAYLOAD": 1000}
    answer = ann.submit(order_id="x" * 1000)
    assert (answer.status_code, answer["Content-Type"]) == (413, "application/problem+json")
    assert "send a reference" in answer.json()["detail"]
    assert (IdempotencyKey.objects.count(), post.arrived()) == (0, [])
