"""The pages of batches: how far each is, and what failed of it."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import pytest
from django.test import Client

from django_idempotent_tasks.models import Batch, BatchState, ChunkState
from django_idempotent_tasks.states import Category
from tests.admin.batches.conftest import lines_of, url
from tests.admin.conftest import HOSTILE, Person, at_most, page
from tests.support.uploads import Batches

pytestmark = pytest.mark.django_db


# -- the list --


def test_the_list_tells_how_far_each_batch_is(root: Client, uploads: Batches) -> None:
    uploads.of("oof", "..."), uploads.of("ooo")
    text = root.get(page("batch")).content.decode()
    assert ('<progress value="50" max="100"' in text, "3 of 6, 1 failed" in text) == (True, True)
    assert ('<progress value="100" max="100"' in text, "3 of 3" in text) == (True, True)


@pytest.mark.parametrize("number", [3, 25])
def test_the_list_takes_a_bounded_number_of_statements(root: Client, uploads: Batches, number: int) -> None:
    for _ in range(number):
        uploads.of("oof", "...")
    root.get(page("batch"))
    with at_most(9):
        root.get(page("batch"))


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"state": BatchState.RUNNING.value}, 2),
        ({"state": BatchState.FINISHED.value}, 1),
        ({"scope": "tenant-1"}, 1),
        ({"task": "shop.register", "state": BatchState.RUNNING.value}, 2),
        ({"task": "shop.other"}, 0),
        ({"state": "17"}, 3),
        ({"q": "no id"}, 0),
        ({"scope": "\x00"}, 0),
    ],
)
def test_filters_and_search_find_batches(
    root: Client, uploads: Batches, query: dict[str, Any], expected: int
) -> None:
    uploads.of("..."), uploads.of("ooo"), uploads.of("...", scope="tenant-1")
    assert len(root.get(page("batch"), query).context["cl"].result_list) == expected


def test_a_batch_is_found_by_its_id(root: Client, uploads: Batches) -> None:
    (wanted, _calls), _other = uploads.of("..."), uploads.of("...")
    for term in (str(wanted.id), wanted.id.hex):
        rows = root.get(page("batch"), {"q": term}).context["cl"].result_list
        assert [row.id for row in rows] == [wanted.id]


# -- one batch --


def test_a_page_tells_outcomes_chunks_and_errors(root: Client, uploads: Batches) -> None:
    batch, calls = uploads.of("off", "fmo", "...", "...")
    uploads.failed_chunk(calls[2])
    uploads.settled(batch.id)
    context = root.get(url(batch)).context
    assert dict(context["outcomes"]) == {
        "ok": "2", "fatal": "3", "retryable": "0", "manual review": "1", "expected": "0",
        "open: no outcome yet": "6",
    }  # fmt: skip
    assert {each["name"]: each["number"] for each in context["chunk_counts"]} == {
        "open": "1", "ended": "2", "needs attention": "1", "discarded": "0", "cancelled": "0",
    }  # fmt: skip
    assert [(each.count, each.category, each.example) for each in context["errors"]] == [
        ("3", "fatal", "3"),
        ("1", "manual review", "4"),
    ]
    assert dict(context["facts"])["state"] == "needs attention"


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"state": BatchState.SUBMITTING}, "submit the same upload again: it goes on"),
        ({"state": BatchState.RUNNING}, "finished when all of them have ended"),
        ({"state": BatchState.RUNNING, "callback": "{}"}, "its callback is called"),
        ({"state": BatchState.NEEDS_ATTENTION, "callback": "{}"}, "redrive or discard them"),
        ({"state": BatchState.CANCELLED}, "go on to their end"),
    ],
)
def test_a_page_tells_what_happens_next(
    root: Client, uploads: Batches, columns: dict[str, Any], words: str
) -> None:
    batch, _calls = uploads.of("...", **columns)
    assert words in root.get(url(batch)).context["next"]


def test_an_ended_batch_says_when_it_is_deleted(root: Client, uploads: Batches) -> None:
    batch, _calls = uploads.of("ooo")
    assert "The sweeper deletes it in" in root.get(url(batch)).context["next"]
    Batch.objects.update(due_at=batch.created_at)
    assert "deletes it now" in root.get(url(batch)).context["next"]


def test_chunks_lead_to_their_keys_and_dead_letters(root: Client, person: Person, uploads: Batches) -> None:
    batch, calls = uploads.of("ooo", "...", "...")
    uploads.failed_chunk(calls[1])
    chunks = root.get(url(batch)).context["chunks"]
    digests = [call.identity.digest for call in calls]
    assert [each.url for each in chunks] == [
        page("idempotencykey", "change", digests[0]),
        page("deadletter", "change", digests[1]),
        page("idempotencykey", "change", digests[2]),
    ]
    assert all(root.get(each.url).status_code == 200 for each in chunks)
    ann = person("view_batch").get(url(batch)).context["chunks"]
    assert [each.url for each in ann] == [""] * 3


def test_the_key_of_a_chunk_leads_to_its_batch(root: Client, person: Person, uploads: Batches) -> None:
    batch, calls = uploads.of("ooo", "...")
    uploads.failed_chunk(calls[1])
    ann = person("view_idempotencykey", "view_deadletter")
    for model, call in (("idempotencykey", calls[0]), ("deadletter", calls[1])):
        target = page(model, "change", call.identity.digest)
        assert url(batch) in root.get(target).content.decode()
        assert url(batch) not in ann.get(target).content.decode()


def test_chunks_are_paged_and_chosen_by_state(
    root: Client, uploads: Batches, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("django_idempotent_tasks.admin.words.batches.CHUNKS", 2)
    batch, _calls = uploads.of("ooo", "...", "...", "ooo", "...")
    first = root.get(url(batch)).context
    assert ([each.place for each in first["chunks"]], first["more"]) == (["0", "1"], "after=1")
    opened = root.get(url(batch), {"chunks": ChunkState.OPEN.value}).context
    assert ([each.place for each in opened["chunks"]], opened["more"]) == (["1", "2"], "chunks=1&after=2")
    rest = root.get(f"{url(batch)}?{opened['more']}").context
    assert ([each.place for each in rest["chunks"]], rest["more"]) == (["4"], "")
    odd = root.get(url(batch), {"chunks": "x", "after": "-5"}).context
    assert [each.place for each in odd["chunks"]] == ["0", "1"]


def test_a_page_takes_a_bounded_number_of_statements(root: Client, uploads: Batches) -> None:
    batch, _calls = uploads.of(*["off", "mrf", "..."] * 30)
    root.get(url(batch))
    with at_most(11):
        root.get(url(batch))


def test_a_batch_that_is_gone_leads_back_to_the_list(root: Client) -> None:
    for name in ("change", "failed", "redrive", "cancel"):
        gone = Batch(pk=UUID(int=7))
        assert root.get(url(gone, name), follow=True).redirect_chain[-1][0] == page("batch")


# -- CSV --


def test_what_failed_is_downloaded_in_order_a_page_at_a_time(
    root: Client, uploads: Batches, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("django_idempotent_tasks.operations.batch_errors.PAGE", 2)
    batch, _calls = uploads.of("off", "fmo")
    response = root.get(url(batch, "failed"))
    assert response.streaming
    assert response.headers["Content-Type"] == "text/csv; charset=utf-8"
    assert "attachment" in response.headers["Content-Disposition"]
    lines = lines_of(response)
    assert [line["index"] for line in lines] == ["1", "2", "3", "4"]
    assert lines[3] == {
        "index": "4", "category": "manual_review", "error": "builtins.ValueError",
        "description": "no 4", "record": '{"n": 4}',
    }  # fmt: skip


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r"])
def test_no_cell_is_a_formula(root: Client, uploads: Batches, start: str) -> None:
    batch, _calls = uploads.of("ff")
    uploads.failing(batch.id, 0, Category.FATAL, description=f"{start}cmd|' /C calc'!A0", error=f"{start}x.y")
    uploads.failing(batch.id, 1, Category.FATAL, value=f"{start}1")
    first, second = lines_of(root.get(url(batch, "failed")))
    for cell in (first["description"], first["error"], second["record"]):
        assert cell.startswith("'")


def test_csv_keeps_controls_as_escapes_and_records_as_json(root: Client, uploads: Batches) -> None:
    batch, _calls = uploads.of("f..")
    value = json.dumps({"name": HOSTILE, "more": "a\nb"}, ensure_ascii=False)
    uploads.failing(batch.id, 0, Category.FATAL, description=HOSTILE, value=value)
    (line,) = lines_of(root.get(url(batch, "failed")))
    assert json.loads(line["record"]) == {"name": HOSTILE, "more": "a\nb"}
    assert all(char.isprintable() for cell in line.values() for char in cell)


def test_csv_has_the_columns_that_a_person_may_see(person: Person, uploads: Batches) -> None:
    batch, _calls = uploads.of("f..")
    heads = {
        (): "index,category,error",
        ("view_traceback",): "index,category,error,description",
        ("view_payload",): "index,category,error,record",
    }
    for number, (more, head) in enumerate(heads.items()):
        response: Any = person("view_batch", *more, name=f"ann{number}").get(url(batch, "failed"))
        assert b"".join(response.streaming_content).decode().splitlines()[0] == head
    assert person(name="bob").get(url(batch, "failed")).status_code == 403
