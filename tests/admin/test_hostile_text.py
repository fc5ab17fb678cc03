"""Hostile text in every column that holds text: each page of the admin opens, and nothing in it acts."""

from __future__ import annotations

import re
from typing import Any

import pytest

pytest.importorskip("django_celery_beat")

from django.contrib import admin
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django_celery_beat.models import PeriodicTask

from django_idempotent_tasks.messages.message import Message
from django_idempotent_tasks.models import (
    AnsweredCall,
    Batch,
    BeatCursor,
    Dashboard,
    DeadLetter,
    FailedJob,
    IdempotencyKey,
)
from django_idempotent_tasks.states import State
from tests.admin.conftest import APP, HOSTILE, Person, page, seen
from tests.admin.hostile import ENCODED, harmless, shop, spoil, texts, unlinked, walked
from tests.admin.test_failed_jobs import sent
from tests.admin.test_keys import inert
from tests.beat.bench import Bench
from tests.beat.conftest import bench

pytestmark = pytest.mark.django_db(transaction=True)
__all__ = ["bench", "sent", "shop"]
#: What is counted: so many rows, the newest, or the chunks of the batches on a page.
BOUNDED = re.compile(r'LIMIT \d|"id" > |"batch_id" IN ')


def test_nothing_acts_on_any_page(root: Client, shop: Bench) -> None:  # noqa: ARG001
    spoil(but=ENCODED)
    pages = walked(root)
    ours = {each.name for part in admin.site.get_urls() for each in getattr(part, "url_patterns", [])}
    ours -= {f"{APP}_dashboard_changelist"}  # the dashboard by the name that the menu asks for
    missed = {name for name in ours - set(pages) if str(name).startswith(APP)}
    assert {str(name).rpartition("_")[2] for name in missed} <= {"add", "delete", "history", "change"}
    assert f"{APP}_beatcursor_run_now" in pages
    for name in (
        "idempotencykey_change",
        "deadletter_redrive",
        "failedjob_change",
        "redriveoperation_change",
        "batch_change",
        "batch_cancel",
        "pause_change",
        "pause_resume",
    ):
        inert(pages[f"{APP}_{name}"])
    assert not {"\x1b", "\u202e"} & set(pages[f"{APP}_batch_failed"])
    unlinked(root)


def test_a_look_at_any_page_writes_nothing_locks_no_row_and_counts_no_table(
    root: Client,
    shop: Bench,  # noqa: ARG001
) -> None:
    with CaptureQueriesContext(connection) as captured:
        walked(root)
    ours = [query["sql"].strip() for query in captured.captured_queries if f"{APP}_" in query["sql"]]
    assert len(ours) > 50
    assert [sql for sql in ours if not sql.startswith(("SELECT", "WITH")) or "FOR UPDATE" in sql] == []
    assert [sql for sql in ours if "COUNT(" in sql and not BOUNDED.search(sql)] == []


def test_text_that_nobody_can_read_any_more_costs_no_page(root: Client, shop: Bench) -> None:  # noqa: ARG001
    spoil()
    walked(root)
    unlinked(root)


@pytest.mark.parametrize(
    "wrong", ["[" * 20_000, '{"done": NaN, "total": 1, "note": []}', "[1, [null, 2, 3, 4]]"]
)
def test_json_that_is_none_of_ours_costs_no_page(root: Client, shop: Bench, wrong: str) -> None:  # noqa: ARG001
    for model, field in texts():
        if field.name in ENCODED:
            model._base_manager.update(**{field.name: wrong[: field.max_length]})
    BeatCursor._base_manager.update(recent=wrong)
    walked(root)
    unlinked(root)


def test_nothing_that_an_address_says_acts_or_leads_away(root: Client, shop: Bench) -> None:  # noqa: ARG001
    said = f"{HOSTILE}\r\nX-Odd: 1"
    many = ("redrive_many", "discard_many")
    asked = [(page("deadletter", name), each) for name in many for each in ("task", "_changelist_filters")]
    for model, model_admin in admin.site._registry.items():
        if model._meta.app_label == APP and model is not Dashboard:
            name = str(model._meta.model_name)
            filters: Any = model_admin.list_filter
            asked += [(page(name), each) for each in ("q", "p", *(one.parameter_name for one in filters))]
            for odd in (HOSTILE, "../../etc/passwd", "1' OR '1'='1", "_0A"):
                answer = root.get(page(name, "change", odd), {"_changelist_filters": said})
                assert answer.status_code == 302
                assert answer["Location"].startswith("/admin/")
                assert "X-Odd" not in answer
    for url, name in asked:
        answer = root.get(url, {name: said}, follow=True)
        assert answer.status_code == 200, (url, name)
        harmless(answer.content.decode())


def test_a_row_without_a_page_has_none_that_would_show_its_columns(person: Person, shop: Bench) -> None:  # noqa: ARG001
    AnsweredCall.objects.update(result='"4242"')
    ann = person("view_answeredcall")
    url = page("answeredcall", "change", AnsweredCall.objects.latest("pk").pk)
    assert "4242" not in ann.get(url, follow=True).content.decode()
    assert ann.post(url).status_code == 403


def test_what_is_decided_is_logged_on_one_line_whatever_was_written(
    root: Client,
    shop: Bench,  # noqa: ARG001
    sent: list[Message],
    caplog: pytest.LogCaptureFixture,
) -> None:
    spoil(but=ENCODED)
    monday = "Monday\nWARNING root released everything"
    asked = [page("deadletter", "redrive_many") + "?category=2"]
    asked += [page("beatcursor", "run_now", PeriodicTask.objects.get(name=HOSTILE).pk)]
    running = IdempotencyKey.objects.filter(state=State.RUNNING).order_by("pk")
    for model, name, rows in (
        ("deadletter", "discard", DeadLetter.objects.filter(state=State.FAILED)[:1]),
        ("deadletter", "resolve", DeadLetter.objects.filter(state=State.REVIEW)),
        ("failedjob", "rerun", FailedJob.objects.filter(digest=None)),
        ("batch", "cancel", Batch.objects.all()),
        ("idempotencykey", "release", running[:1]),
        ("idempotencykey", "cancel", running[1:2]),
    ):
        asked += [page(model, name, row.pk) for row in rows]
    caplog.clear()
    for url in asked:
        form = {"seen": seen(root, url), "reason": f"{HOSTILE} {monday}", "result": "1"}
        harmless(root.post(url, form, follow=True).content.decode())
    said = [line for line in caplog.messages if "Monday" in line]
    assert len(said) == len(asked) == 8
    assert [line for line in said if not line.isprintable()] == []
    assert sent
