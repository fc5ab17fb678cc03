"""``batch_response`` and ``BatchStatusView``: an upload is accepted once, and its user sees how far it is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext

from django_idempotent_tasks.http import BatchStatusView, batch_document
from django_idempotent_tasks.ledger.stores.postgresql import PostgresStore
from django_idempotent_tasks.models import Batch, BatchChunk, BatchState, IdempotencyKey
from django_idempotent_tasks.operations.batches import get_batch
from tests.sending.http import urls
from tests.sending.http.conftest import Visitor
from tests.support.batches import Desk, desk, texts
from tests.support.ledger.quick import EVERY_APP

pytestmark = pytest.mark.django_db(transaction=True, available_apps=EVERY_APP)
__all__ = ["desk"]


class Uploader(Visitor):
    """Somebody who sends lists."""

    def upload(self, records: Any, key: str | None = '"u1"') -> Any:
        """POST the records, under this header."""
        headers = {} if key is None else {"Idempotency-Key": key}
        body = records if isinstance(records, str) else json.dumps(records)
        return self.client.post("/uploads/", body, content_type="application/json", headers=headers)


@pytest.fixture(autouse=True)
def _task(desk: Desk, settings: Any) -> Iterator[None]:
    settings.ROOT_URLCONF = "tests.sending.http.urls"
    urls.TASK.append(desk.registering(permanent_errors=(ValueError,)))
    yield
    urls.TASK.pop()
    urls.STATED.clear()


@pytest.fixture
def ann() -> Uploader:
    return Uploader("ann")


def test_a_new_upload_is_accepted_and_followed_to_its_end(ann: Uploader, desk: Desk) -> None:
    answer = ann.upload(texts(5))
    document = answer.json()
    assert (answer.status_code, answer["Location"]) == (202, f"/jobs/batches/{document['id']}/")
    assert (document["state"], document["progress"], document["task"]) == ("running", 0.0, "desk.register")
    waiting = ann.get(answer["Location"])
    assert (waiting.status_code, waiting["Cache-Control"]) == (200, "no-store")
    assert 1 <= int(waiting["Retry-After"]) <= 3
    desk.run()
    done = ann.get(answer["Location"])
    assert "Retry-After" not in done
    assert (done.json()["state"], done.json()["progress"]) == ("finished", 1.0)
    assert (done.json()["records"]["ok"], done.json()["chunks"]["ended"]) == (5, 3)
    assert None not in (done.json()["created"], done.json()["sealed"], done.json()["finished"])


def test_the_same_upload_is_refused_while_it_runs_and_replayed_when_it_has_ended(
    ann: Uploader, desk: Desk
) -> None:
    first = ann.upload(texts(5))
    second = ann.upload(texts(5))
    assert (second.status_code, second["Content-Type"]) == (409, "application/problem+json")
    assert second.json()["job"]["id"] == first.json()["id"]
    assert second["Location"] == first["Location"]
    assert 1 <= int(second["Retry-After"]) <= 10
    assert IdempotencyKey.objects.count() == 3
    desk.run()
    third = ann.upload(texts(5))
    assert (third.status_code, third["Idempotent-Replayed"]) == (200, "true")
    assert (third.json()["id"], third.json()["state"]) == (first.json()["id"], "finished")
    assert desk.run() == []


@pytest.mark.parametrize(
    ("state", "status"),
    [
        (BatchState.SUBMITTING, 409),
        (BatchState.NEEDS_ATTENTION, 409),
        (BatchState.CANCELLED, 200),
        (BatchState.FINISHED, 200),
    ],
)
def test_what_the_same_upload_gets_in_each_state(ann: Uploader, state: BatchState, status: int) -> None:
    ann.upload(texts(3))
    Batch.objects.update(state=state)
    assert ann.upload(texts(3)).status_code == status


def test_an_upload_whose_submission_died_goes_on_with_the_next_request(ann: Uploader, desk: Desk) -> None:
    ann.upload(texts(5))
    last = BatchChunk.objects.get(place=2)
    IdempotencyKey.objects.filter(digest=last.digest).delete()
    last.delete()
    Batch.objects.update(state=BatchState.SUBMITTING, sealed_at=None, records=0, chunks=0)
    assert ann.upload(texts(5)).status_code == 409
    assert BatchChunk.objects.count() == 3
    desk.run()
    assert ann.upload(texts(5)).json()["records"]["ok"] == 5


def test_other_records_under_the_key_are_refused(ann: Uploader) -> None:
    ann.upload(texts(5))
    for records in (texts(4), texts(6), ["other", *texts(5)[1:]]):
        assert ann.upload(records).status_code == 422
    assert Batch.objects.count() == 1


def test_two_users_and_two_keys_are_different_uploads(ann: Uploader) -> None:
    answers = [ann.upload(texts(2)), Uploader("bob").upload(texts(2)), ann.upload(texts(2), '"u2"')]
    assert [each.status_code for each in answers] == [202] * 3
    assert len({each.json()["id"] for each in answers}) == 3


def test_a_view_may_name_the_upload_and_its_tenant(ann: Uploader) -> None:
    urls.STATED.update(key=["prices", 17], scope="tenant-1")
    answer = ann.upload(texts(2), key=None)
    batch = get_batch(answer.json()["id"])
    assert (answer.status_code, batch.scope) == (202, "tenant-1")
    assert ann.get(answer["Location"]).status_code == 404  # not bound to a user: the project says who may see


@pytest.mark.parametrize("records", ['{"a": 1}', '"text"', "7", "null", "[NaN]"])
def test_what_is_no_list_of_records_is_refused(ann: Uploader, records: str) -> None:
    answer = ann.upload(records)
    assert (answer.status_code, answer["Content-Type"]) == (400, "application/problem+json")
    assert IdempotencyKey.objects.count() == 0


def test_requests_without_a_key_or_a_user_and_large_records_are_refused(ann: Uploader, settings: Any) -> None:
    assert ann.upload(texts(2), key=None).status_code == 400
    assert Uploader().upload(texts(2)).status_code == 401
    settings.IDEMPOTENT_TASKS = {"MAX_PAYLOAD": 1000}
    assert ann.upload(["x" * 1000]).status_code == 413


def test_a_batch_is_nobody_else_s_to_see_and_nothing_tells_that_it_is_there(ann: Uploader) -> None:
    url = ann.upload(texts(2))["Location"]
    for other in (Uploader("bob"), Uploader()):
        asked = []
        for each in (url, f"/jobs/batches/{uuid4()}/"):
            with CaptureQueriesContext(connection) as captured:
                answer = other.get(each)
            ours = [query for query in captured if "django_idempotent_tasks" in query["sql"]]
            asked.append((answer.status_code, answer.content, len(ours)))
        assert asked[0] == asked[1]
        assert asked[0][0] == 404


def test_a_subclass_may_show_a_batch_to_others(ann: Uploader, rf: Any) -> None:
    class Open(BatchStatusView):
        def may_see(self, request: Any, batch: Batch) -> bool:  # noqa: ARG002
            return bool(batch.scope)

    document = ann.upload(texts(2)).json()
    shown: Any = Open.as_view()(rf.get("/"), batch_id=UUID(document["id"]))
    assert json.loads(shown.content)["id"] == document["id"]


def test_a_document_has_no_record_and_no_error(ann: Uploader, desk: Desk) -> None:
    def refuse(_task: Any, record: Any) -> None:
        raise ValueError(f"no {record.value}")

    urls.TASK.append(desk.registering(refuse, permanent_errors=(ValueError,), name="desk.refuse"))
    url = ann.upload(["s3cret"])["Location"]
    desk.run()
    urls.TASK.pop()
    answer = ann.get(url)
    assert (answer.json()["records"]["fatal"], "s3cret" in answer.content.decode()) == (1, False)
    assert batch_document(Batch.objects.get()) == answer.json()


def test_a_ledger_that_is_down_is_said_with_when_to_ask_again(
    ann: Uploader, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = ann.upload(texts(2))["Location"]

    def fail(*_args: Any, **_named: Any) -> None:
        raise OperationalError

    monkeypatch.setattr(PostgresStore, "lock_batch", fail)
    monkeypatch.setattr("django_idempotent_tasks.http.batches.numbers", fail)
    for answer in (ann.upload(texts(2)), ann.get(url)):
        assert (answer.status_code, "Retry-After" in answer) == (503, True)


def test_other_methods_are_not_allowed(ann: Uploader) -> None:
    url = ann.upload(texts(2))["Location"]
    assert ann.post(url).status_code == 405
    assert ann.get("/jobs/batches/no-id/").status_code == 404
