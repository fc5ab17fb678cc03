"""Hostile text in every column that holds text: each page of the admin opens, and nothing in it acts."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from html.parser import HTMLParser
from typing import Any
from urllib.parse import parse_qs, urljoin, urlsplit

import pytest

pytest.importorskip("django_celery_beat")

from django.apps import apps
from django.contrib import admin
from django.db import connection
from django.db.models import CharField, Field, Model, TextField
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import resolve
from django_celery_beat.models import PeriodicTask

from django_idempotent_tasks.ledger.moments import database_now
from django_idempotent_tasks.messages.message import Message
from django_idempotent_tasks.models import (
    AnsweredCall,
    BeatCursor,
    Dashboard,
    DeadLetter,
    DuplicateAttempt,
    FailedJob,
    HourlyCount,
    IdempotencyKey,
    RedriveOperation,
)
from django_idempotent_tasks.operations import redrives
from django_idempotent_tasks.operations.selection import Selection
from django_idempotent_tasks.states import State
from django_idempotent_tasks.testing.contract.bench import a_failure
from tests.admin.conftest import APP, HOSTILE, Person, page, seen
from tests.admin.test_failed_jobs import sent
from tests.admin.test_keys import inert
from tests.beat.bench import Bench
from tests.beat.conftest import bench
from tests.support.keys import Keys

pytestmark = pytest.mark.django_db(transaction=True)
__all__ = ["bench", "sent"]
#: What a task's call may hold anywhere: in places, names and values, and where none is expected.
MESSAGE = json.dumps(
    {
        "v": 1,
        "args": [HOSTILE, {HOSTILE: [HOSTILE]}],
        "kwargs": {HOSTILE: HOSTILE},
        "options": {"queue": HOSTILE},
    }
)
#: Beat writes these about itself; no task, person or entry does.
OWN = {"BeatCursor.schedule", "BeatCursor.recent", "Leader.name"}
#: What is in these is JSON.
ENCODED = ("message", "result", "progress", "selection")
ROOT = f"/admin/{APP}/"
#: A form's own, which must come back as they are, and what a person has just typed into Django's search.
HIDDEN = re.compile('<input type="hidden"[^<>]*>|<input[^<>]* id="searchbar"[^<>]*>')

#: What is counted: so many rows, or the newest.
BOUNDED = re.compile(r'LIMIT \d|"id" > ')


class Page(HTMLParser):
    """The links of a page, and what a browser would run of it."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.acts: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.links += [found["href"]] if tag == "a" and "href" in found else []
        self.acts += [f"{tag} {name}" for name in found if name.startswith("on") or name == "style"]
        self.acts += [value for value in found.values() if value.strip().lower().startswith("javascript:")]
        self.acts += [tag] if found.get("src") == "x" or (tag == "script" and "src" not in found) else []


def harmless(html: str) -> Page:
    """The page, if nothing in it acts."""
    found = Page(html)
    assert found.acts == []
    visible = HIDDEN.sub("", html)
    for part in ("<script>alert", "<img src=x", "\x1b", "\u202e"):
        assert part not in visible
    return found


def texts() -> Iterator[tuple[type[Model], Field[Any, Any]]]:
    """Every column of the ledger that holds text."""
    for model in apps.get_app_config(APP).get_models():
        for field in model._meta.concrete_fields:
            is_text = isinstance(field, CharField | TextField) and not field.primary_key
            if is_text and not model._meta.proxy and f"{model.__name__}.{field.name}" not in OWN:
                yield model, field


@pytest.fixture
def shop(keys: Keys, bench: Bench) -> Bench:
    """A row of each kind, and a periodic task of which all that a person can write is hostile."""
    store = keys.store()
    ended = [keys.claimed(keys.call(f"call {number}", message=MESSAGE)) for number in range(5)]
    assert keys.complete(ended[0], result=json.dumps({HOSTILE: [HOSTILE]}))
    for claim, state in ((ended[1], State.FAILED), (ended[2], State.REVIEW)):
        assert keys.fail(claim, state=state, failure=a_failure(HOSTILE, HOSTILE, traceback=HOSTILE))
    note = json.dumps({"done": 3, "total": 5, "note": HOSTILE})
    IdempotencyKey.objects.update(progress=note)
    store.record_duplicate(keys.call("B", of=ended[3].call), place="worker", reason="in_progress")
    store.record_plain(HOSTILE, "old", attempt=1, state=State.FAILED, failure=a_failure(), message=MESSAGE)
    AnsweredCall.objects.create(
        digest=ended[4].digest, task_id="A", generation=1, state=7, reason=1, due_at=database_now(store)
    )
    numbers = dict.fromkeys(("created", "succeeded", "failed", "duplicates", "crashes"), 1)
    HourlyCount.objects.create(hour=database_now(store), task=HOSTILE, **numbers)
    redrives.begin(Selection(task=HOSTILE, scope=HOSTILE), by=HOSTILE, reason=HOSTILE)
    bench.now = database_now(store)
    entry = {"task": HOSTILE, "args": json.dumps([HOSTILE]), "kwargs": json.dumps({HOSTILE: HOSTILE})}
    bench.every(10, HOSTILE, description=HOSTILE, queue=HOSTILE, **entry)
    beat = bench.beat()
    bench.tick(beat)
    bench.tick(beat, after=10)
    bench.tick(bench.beat(), leads=False)
    return bench


def walked(client: Client) -> dict[str, str]:
    """Every page of ours that links lead to, by its name; of what a list can be filtered by, each once."""
    left = [ROOT, page("deadletter", "redrive_many"), page("deadletter", "discard_many")]
    met: set[tuple[str, ...]] = set()
    pages: dict[str, str] = {}
    while left:
        url = left.pop()
        shown = client.get(url)
        assert shown.status_code == 200, url
        html = shown.content.decode()
        found = harmless(html)
        path, _, query = url.partition("?")
        pages[resolve(path).url_name or ""] = html
        for link in (urlsplit(urljoin(url, each)) for each in found.links):
            mark = (link.path, *sorted(parse_qs(link.query)))
            if link.path.startswith(ROOT) and mark not in met and not (query and link.query):
                met.add(mark)
                left.append(f"{link.path}?{link.query}" if link.query else link.path)
    return pages


def spoil(*, but: Collection[str] = ()) -> None:
    """Write the hostile text into every column that holds text."""
    for model, field in texts():
        if field.name not in but:
            model._base_manager.update(**{field.name: HOSTILE[: field.max_length]})


def unlinked(client: Client) -> None:
    """Pages that no link leads to show no more than their lists do, or nothing that acts."""
    for model in (AnsweredCall, DuplicateAttempt, HourlyCount, FailedJob, RedriveOperation, DeadLetter):
        row = model._default_manager.first()
        assert row is not None
        for name in ("change", "history"):
            shown = client.get(page(str(model._meta.model_name), name, row.pk), follow=True)
            assert shown.status_code == 200
            harmless(shown.content.decode())


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
    ):
        inert(pages[f"{APP}_{name}"])
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
        ("idempotencykey", "release", running[:1]),
        ("idempotencykey", "cancel", running[1:2]),
    ):
        asked += [page(model, name, row.pk) for row in rows]
    caplog.clear()
    for url in asked:
        form = {"seen": seen(root, url), "reason": f"{HOSTILE} {monday}", "result": "1"}
        harmless(root.post(url, form, follow=True).content.decode())
    said = [line for line in caplog.messages if "Monday" in line]
    assert len(said) == len(asked) == 7
    assert [line for line in said if not line.isprintable()] == []
    assert sent
