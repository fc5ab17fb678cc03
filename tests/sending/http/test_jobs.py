"""The status of a job and its end, for whoever may see it."""

from __future__ import annotations

from asyncio import gather
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import connection
from django.test import AsyncClient
from django.test.utils import CaptureQueriesContext

from django_idempotent_tasks.identity.key import Identity
from django_idempotent_tasks.ledger.stores import get_store
from django_idempotent_tasks.ledger.stores.clock import shifted
from django_idempotent_tasks.ledger.values import Call
from django_idempotent_tasks.models import IdempotencyKey, Step
from django_idempotent_tasks.states import State
from tests.sending.http import urls
from tests.sending.http.conftest import Visitor
from tests.support.ledger.quick import EVERY_APP
from tests.support.post import Post

pytestmark = pytest.mark.django_db(transaction=True, available_apps=EVERY_APP)


def test_a_job_is_followed_from_its_acceptance_to_its_result(ann: Visitor, post: Post, task: Any) -> None:
    url = ann.submit()["Location"]
    waiting = ann.get(url)
    assert (waiting.status_code, waiting.json()["state"]) == (200, "pending")
    assert (1 <= int(waiting["Retry-After"]) <= 3, waiting["Cache-Control"]) == (True, "no-store")
    post.work(task)
    done = ann.get(url)
    assert (done.json()["state"], done.json()["result"], done.json()["attempt"]) == ("succeeded", 7, 1)
    assert "Retry-After" not in done
    assert None not in (done.json()["created"], done.json()["started"], done.json()["finished"])


def test_a_job_is_nobody_else_s_to_see_or_to_cancel(ann: Visitor) -> None:
    url = ann.submit()["Location"]
    for other in (Visitor("bob"), Visitor()):
        assert other.get(url).status_code == 404
        assert other.post(f"{url}cancel/").status_code == 404
    assert IdempotencyKey.objects.get().state == State.PENDING


def test_nothing_tells_whether_somebody_else_has_a_job(ann: Visitor, post: Post, task: Any) -> None:
    replaced = ann.submit()["Location"]
    post.work(task)
    with shifted(8 * 86_400):
        get_store().prune_answered(bite=1)
        ann.submit()
    theirs = IdempotencyKey.objects.get().task_id
    bob, nobody = Visitor("bob"), Visitor()
    for other in (bob, nobody):
        asked = []
        for url in ("/jobs/nothing/", f"/jobs/{theirs}/", replaced):
            with CaptureQueriesContext(connection) as captured:
                answer = other.get(url)
            ours = [each["sql"] for each in captured if "django_idempotent_tasks" in each["sql"]]
            asked.append((answer.status_code, answer.content, len(ours)))
        assert asked[0] == asked[1] == asked[2]


def test_an_unknown_job_is_not_found(ann: Visitor) -> None:
    for url in ("/jobs/nothing/", "/jobs/%00/", f"/jobs/{'x' * 300}/"):
        assert ann.get(url).status_code == 404


def test_a_job_is_cancelled_once_and_by_post_only(ann: Visitor, post: Post, task: Any) -> None:
    url = ann.submit().json()["cancel_url"]
    assert ann.get(url).status_code == 405
    answers = [ann.post(url), ann.post(url)]
    assert [answer.status_code for answer in answers] == [200, 200]
    assert answers[0].json()["state"] == "cancelled"
    post.work(task)
    assert IdempotencyKey.objects.get().state == State.CANCELLED


def test_a_finished_job_cannot_be_cancelled(ann: Visitor, post: Post, task: Any) -> None:
    url = ann.submit().json()["cancel_url"]
    post.work(task)
    answer = ann.post(url)
    assert (answer.status_code, answer.json()["job"]["state"]) == (409, "succeeded")


def test_a_call_whose_key_was_claimed_anew_still_has_its_own_end(ann: Visitor, post: Post, task: Any) -> None:
    first = ann.submit()
    post.work(task)
    with shifted(8 * 24 * 3600):
        IdempotencyKey.objects.update(open_at=IdempotencyKey.objects.get().created_at)
    second = ann.submit()
    assert (second.status_code, second.json()["id"] != first.json()["id"]) == (202, True)
    old = ann.get(first["Location"]).json()
    assert (old["id"], old["state"], old["result"]) == (first.json()["id"], "succeeded", 7)
    over = ann.post(f"{first['Location']}cancel/")
    assert (over.status_code, over["Content-Type"]) == (409, "application/problem+json")
    assert (over.json()["type"].rpartition(":")[2], over.json()["job"]["state"]) == ("finished", "succeeded")
    assert Visitor("bob").post(f"{first['Location']}cancel/").status_code == 404
    assert ann.get(second["Location"]).json()["state"] == "pending", "the later call goes on"


def test_a_job_that_was_redriven_has_not_started_until_it_does(ann: Visitor, post: Post, task: Any) -> None:
    url = ann.submit()["Location"]
    post.work(task)
    assert ann.get(url).json()["started"] is not None
    IdempotencyKey.objects.update(state=State.FAILED)
    row = IdempotencyKey.objects.get()
    assert get_store().redrive(row.digest, token=row.token, message="{}")
    assert (ann.get(url).json()["state"], ann.get(url).json()["started"]) == ("pending", None)


def test_how_far_a_job_is_is_told_to_whoever_asks_and_to_a_second_click(ann: Visitor) -> None:
    url = ann.submit()["Location"]
    text = '{"done": 3, "total": 5, "note": "week <3>"}'
    IdempotencyKey.objects.update(state=State.RUNNING, progress=text)
    for document in (ann.get(url).json(), ann.submit().json()["job"]):
        assert document["progress"] == {"done": 3, "total": 5, "note": "week <3>"}


def test_the_steps_of_a_job_are_told_by_name_and_without_their_values(ann: Visitor) -> None:
    url = ann.submit()["Location"]
    assert ann.get(url).json()["steps"] == []
    IdempotencyKey.objects.update(state=State.RUNNING, owner="w:1:a", attempts=1)
    row = IdempotencyKey.objects.get()
    moment = row.created_at
    named = {"digest": row.digest, "token": 1, "attempt": 1, "started_at": moment, "finished_at": moment}
    Step.objects.create(**named, generation=row.generation, name="plan", value='"secret"')
    Step.objects.create(**named, generation=row.generation + 1, name="of other work", value=None)
    assert ann.get(url).json()["steps"] == [{"name": "plan", "state": "done"}]
    assert "secret" not in ann.get(url).content.decode()


def test_under_asgi_two_clicks_at_once_are_one_job_that_is_followed_and_cancelled(ann: Visitor) -> None:
    visitor = AsyncClient()
    visitor.cookies = ann.client.cookies

    async def click() -> Any:
        headers = {"Idempotency-Key": "k1"}
        body = {"order_id": 7}
        return await visitor.post("/aplans/", body, content_type="application/json", headers=headers)

    async def both() -> list[Any]:
        answers = await gather(click(), click())
        job = next(answer.json() for answer in answers if answer.status_code == 202)
        seen = await visitor.get(f"/jobs/{job['id']}/")
        ended = await visitor.post(job["cancel_url"])
        return [sorted(each.status_code for each in answers), seen.json()["state"], ended.json()["state"]]

    assert async_to_sync(both)() == [[202, 409], "pending", "cancelled"]


# -- follow-ups --


def followed(ann: Visitor, post: Post) -> tuple[Any, str]:
    """A job that runs, and the URL of the one that follows it."""
    urls.TASK[:] = [post.task(name="plans.follow", on_duplicate="follow_up")]
    first = ann.submit()["Location"]
    row = IdempotencyKey.objects.get()
    call = Call(Identity(row.digest, row.scope, row.key_text, None), row.task, row.task_id, None)
    assert get_store().claim_reserved(call, owner="w:1:a", lease=60)
    second = ann.submit()
    assert second.status_code == 202
    return first, second["Location"]


def test_a_job_that_follows_is_accepted_and_waits(ann: Visitor, post: Post) -> None:
    first, second = followed(ann, post)
    waiting = ann.get(second).json()
    assert (waiting["state"], waiting["started"], waiting["follow_up"]) == ("pending", None, None)
    running = ann.get(first).json()
    assert running["follow_up"]["id"] == waiting["id"]
    assert running["follow_up"]["since"] == waiting["created"]
    third = ann.submit()
    assert (third.status_code, third.json()["job"]["id"]) == (409, waiting["id"])
    assert Visitor("bob").get(second).status_code == 404


def test_a_job_that_follows_is_cancelled_and_the_one_that_runs_is_not(ann: Visitor, post: Post) -> None:
    first, second = followed(ann, post)
    done = ann.post(ann.get(second).json()["cancel_url"])
    assert (done.status_code, done.json()["state"]) == (200, "cancelled")
    assert ann.get(second).json()["state"] == "cancelled"
    assert (ann.get(first).json()["state"], ann.get(first).json()["follow_up"]) == ("running", None)
