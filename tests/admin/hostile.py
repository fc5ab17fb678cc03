"""A ledger whose every text is hostile, and a walk through all pages of the admin that show it."""

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
from django.db.models import CharField, Field, Model, TextField
from django.test import Client
from django.urls import resolve

from django_idempotent_tasks.ledger.moments import database_now
from django_idempotent_tasks.models import (
    AnsweredCall,
    Batch,
    DeadLetter,
    DuplicateAttempt,
    FailedJob,
    HourlyCount,
    IdempotencyKey,
    Pause,
    RedriveOperation,
)
from django_idempotent_tasks.operations import pauses, redrives
from django_idempotent_tasks.operations.selection import Selection
from django_idempotent_tasks.states import Category, State
from django_idempotent_tasks.testing.contract.bench import a_failure
from tests.admin.conftest import APP, HOSTILE, page
from tests.admin.test_roles import text_of
from tests.beat.bench import Bench
from tests.support.fleet import worker
from tests.support.keys import Keys
from tests.support.uploads import Batches

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
ENCODED = (
    *("message", "result", "progress", "selection"),
    *("queues", "tasks", "run_buckets", "wait_buckets"),
)
ROOT = f"/admin/{APP}/"
#: A form's own, which must come back as they are, and what a person has just typed into Django's search.
HIDDEN = re.compile('<input type="hidden"[^<>]*>|<input[^<>]* id="searchbar"[^<>]*>')


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
    ended = [keys.claimed(keys.call(f"call {number}", message=MESSAGE)) for number in range(6)]
    keys.in_columns(ended[5], state=State.RETRY)
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
    batches = Batches()
    batch, calls = batches.of("f..", "ooo", "...", key_text=HOSTILE)
    batches.failing(batch.pk, 0, Category.FATAL, description=HOSTILE, value=json.dumps(HOSTILE))
    batches.failed_chunk(calls[2])
    redrives.begin(Selection(task=HOSTILE, scope=HOSTILE), by=HOSTILE, reason=HOSTILE)
    pauses.pause(store, HOSTILE, scope=HOSTILE[:120], by=HOSTILE, reason=HOSTILE)
    worker(keys, name=HOSTILE, host=HOSTILE, queues=(HOSTILE,), tasks=(HOSTILE,))
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
        path, _, query = url.partition("?")
        if shown.streaming:  # a file
            pages[resolve(path).url_name or ""] = text_of(shown)
            continue
        html = shown.content.decode()
        found = harmless(html)
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
    for model in (
        AnsweredCall,
        DuplicateAttempt,
        HourlyCount,
        FailedJob,
        RedriveOperation,
        DeadLetter,
        Batch,
        Pause,
    ):
        row = model._default_manager.first()
        assert row is not None
        for name in ("change", "history"):
            shown = client.get(page(str(model._meta.model_name), name, row.pk), follow=True)
            assert shown.status_code == 200
            harmless(shown.content.decode())
